"""Update of FedU: a client takes the global predictor only if the encoders are close.

Zhuang et al., "Collaborative Unsupervised Visual Representation Learning from
Decentralized Data", ICCV 2021.

    mu      the divergence below which the client takes the global predictor
"""

from furlkit.updates.decision import Decision
from furlkit.updates.distances import mean_conv
from furlkit.weights import Tensors, divide


def fedu(
    w_g: Tensors, w_k: Tensors | None, memory: Tensors, *, mu: float
) -> tuple[Tensors, Tensors, Decision]:
    """Take w_g; keep the client's predictor if the divergence is at least mu.

    The divergence is the mean over the encoder's convolutions of ||w_g - w_k||, between
    the global model and the client's model. (The authors' code compares the client's
    model before and after its last round.)
    """
    encoder, _ = divide(w_g if w_k is None else w_k, ["encoder"])
    gap = mean_conv(w_g, encoder)
    if w_k is None:
        return w_g, memory, Decision(0.0)
    if gap < mu:
        return w_g, memory, Decision(0.0, gap)
    predictor, _ = divide(w_k, ["predictor"])
    return {**w_g, **predictor}, memory, Decision(1.0, gap)
