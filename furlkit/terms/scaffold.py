"""SCAFFOLD's correction of client drift, as a term of the loss.

Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning",
ICML 2020, Eq. 3-4 and Algorithm 1.

    x, y     weights at the start and at the end of the client's round
    c, c_k   control variates of the server and of the client: mean gradients
    eta      learning rates of the client's K steps

    y <- y - eta (grad F(y) - c_k + c)          c - c_k is the gradient of <c - c_k, y>
    c_k+ = c_k - c + (x - y) / sum(eta)         Option II; sum(eta) = K eta if constant
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit.terms.proximal import weights_like


def correction(y: Sequence[Tensor], c_minus_c_k: Sequence[Tensor]) -> Tensor:
    """SCAFFOLD Eq. 3: <c - c_k, y>, summed over all tensors of a net."""
    products = [(a * b).sum() for a, b in zip(y, c_minus_c_k, strict=True)]
    return torch.stack(products).sum()


def next_control(
    c_k: np.ndarray, c: np.ndarray, x: np.ndarray, y: np.ndarray, rates: float
) -> np.ndarray:
    """SCAFFOLD Eq. 4, Option II; `rates` is the sum of the learning rates."""
    wide = (v.astype(np.float64) for v in (c_k, c, x, y))
    c_k, c, x, y = wide
    return (c_k - c + (x - y) / rates).astype(np.float32)


def scaffold(
    net: nn.Module, given: Mapping[str, Any], *, scaffold: bool
) -> Callable | None:
    """The term for the client's `correction`, c - c_k by the names of parameters."""
    if not scaffold:
        return None
    c_minus_c_k = weights_like(net, given["correction"])
    return lambda batch, forward: correction([*net.parameters()], c_minus_c_k)
