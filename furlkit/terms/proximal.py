"""The proximal term of FedProx: a client's weights stay near the server's.

Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Eq. 2.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn


def proximal_term(w: Sequence[Tensor], w_g: Sequence[Tensor], mu: float) -> Tensor:
    """FedProx Eq. 2, second summand, to be added to any objective:

        (mu / 2) ||w - w_g||^2

    w the trained parameters, w_g the global model's in equal order, mu the weight.
    Parameters only: BatchNorm's running statistics take no gradient.
    """
    squares = [squared_distance(a, b) for a, b in zip(w, w_g, strict=True)]
    return mu / 2 * torch.stack(squares).sum()


def squared_distance(a: Tensor, b: Tensor) -> Tensor:
    """||a - b||^2 of tensors of one shape; b takes no gradient."""
    if a.shape != b.shape:
        raise ValueError(f"{tuple(a.shape)} and {tuple(b.shape)}: expected one shape")
    return (a - b.detach()).square().sum()


def weights_like(net: nn.Module, tensors: Mapping[str, np.ndarray]) -> list[Tensor]:
    """Entries of `tensors` for the parameters of a net, in the net's memory layout."""
    pairs = ((p.detach(), tensors[name]) for name, p in net.named_parameters())
    return [torch.empty_like(p).copy_(torch.from_numpy(array)) for p, array in pairs]


def proximal(
    net: nn.Module, given: Mapping[str, Any], *, proximal: float
) -> Callable | None:
    """Term with mu = `proximal`: the weights stay near the received weights."""
    if not proximal:
        return None
    w_g = weights_like(net, given["received"])
    return lambda batch, forward: proximal_term([*net.parameters()], w_g, proximal)
