"""Update of FedEMA: a client keeps more of its model if the global model is far away.

Zhuang et al., "Divergence-aware Federated Self-Supervised Learning", ICLR 2022.

    w_g, w_k    the global model; the client's model after its last round
    m           share of w_k in the new weights
    lambda_k    the client's scale, set once, from tau
"""

import numpy as np

from furlkit.updates.decision import Decision
from furlkit.weights import Tensors, is_batchnorm_statistic, mixed, part_of

LAMBDA = "fedema.lambda"


def fedema(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors, *, tau: float
) -> tuple[Tensors, Tensors, Decision]:
    """w <- m w_k + (1 - m) w_g,   m = min(lambda_k ||w_g - w_k||, 1),

    lambda_k = tau / ||w_g - w_k||, set when w_k first exists; m is tau in this round.
    The distance covers the trained weights of encoder and projector; m also mixes the
    predictor and BatchNorm statistics.
    """
    if w_k is None:
        return w_g, memory, Decision(0.0)
    gap = distance(w_g, w_k)
    if LAMBDA not in memory and gap > 0:
        memory = {**memory, LAMBDA: np.array(tau / gap)}
    m = min(float(memory.get(LAMBDA, 0.0)) * gap, 1.0)
    return {**w_g, **mixed(w_k, w_g, m)}, memory, Decision(m, gap)


def distance(w_g: Tensors, w_k: Tensors) -> float:
    """||w_g - w_k|| over the trained weights of the online encoder and projector."""
    names = [
        name
        for name in w_g
        if part_of(name) in ("encoder", "projector")
        and not is_batchnorm_statistic(name)
        and name in w_k
    ]
    squares = [np.square(w_g[k].astype(np.float64) - w_k[k]).sum() for k in names]
    return float(np.sqrt(sum(squares)))
