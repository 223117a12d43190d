"""Ditto: a client's own model is pulled towards the global one.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021, Eq. 1 and Algorithm 1; FedStyle's appendix.

    w     the global model; the client trains a copy of it as in FedAvg
    v     the client's own model, which goes on from round to round
    mu    how strongly v is pulled (--pull; lambda in Ditto)

    v minimises F(v) + (mu / 2) ||v - w||^2        F the objective and its terms

In Ditto w is the global model as it was received, and the client sends the copy. In
FedStyle's appendix v is pulled to the copy that the client has just trained, and the
server averages v (Algorithm 1, line 10): --pull-to trained --sent-model own.
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
