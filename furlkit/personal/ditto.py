"""Ditto: a client's own model is pulled towards the global one.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021, Eq. 1 and Algorithm 1; FedStyle's appendix.

    w     the global model; the client trains a copy of it as in FedAvg, and sends that
    v     the client's own model, which goes on from round to round and is never sent
    mu    how strongly v is pulled (--pull; lambda in Ditto)

    v minimises F(v) + (mu / 2) ||v - w||^2        F the objective and its terms

In Ditto w is the global model as it was received, and FedStyle's appendix has the copy
that the client has just trained in its place. That appendix does not say which of the two
models is sent; if v were, nothing would be personal about it, so here the copy is.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from furlkit.terms.proximal import proximal_term


def term(
    net: nn.Module,
    w: Mapping[str, Mapping[str, Tensor]],
    *,
    pull: float,
    pull_to: str,
) -> Callable[[Any, Any], Tensor] | None:
    """The second summand; `w` has the weights "received" and those "trained"."""
    if not pull:
        return None
    fixed = [w[pull_to][name] for name, _ in net.named_parameters()]
    return lambda batch, forward: proximal_term([*net.parameters()], fixed, pull)
