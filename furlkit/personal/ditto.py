"""Ditto: a client's personal model is pulled towards the global model.

Li et al., "Ditto: Fair and Robust Federated Learning Through Personalization", ICML
2021; FedStyle's appendix.

    w     the global model; the client trains a copy of it as in FedAvg
    v     the client's personal model, which persists between rounds
    mu    strength of the pull (--pull; lambda in Ditto)

    v minimises F(v) + (mu / 2) ||v - w||^2        F the objective and its terms

In Ditto w is the received global model, and the client sends its trained copy. In
FedStyle's appendix the trained copy pulls v, and the server averages v (Algorithm 1,
line 10): --pull-to trained --sent-model own.
"""

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor, nn

from furlkit.terms.proximal import proximal_term


def term(
    net: nn.Module, w: Mapping[str, Mapping[str, Tensor]], *, pull: float, pull_to: str
) -> Callable[[Any, Any], Tensor] | None:
    """Second summand; `w` holds the "received" and the "trained" weights."""
    if not pull:
        return None
    fixed = [w[pull_to][name] for name, _ in net.named_parameters()]
    return lambda batch, forward: proximal_term([*net.parameters()], fixed, pull)
