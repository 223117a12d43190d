"""Similarity distillation: a student arranges images as an ensemble of models does.

Shi et al., "Towards Communication-Efficient and Privacy-Preserving Federated
Representation Learning", FLESD, Eq. 7-10.

    q         the student's unit representations of B images               (B, d)
    anchors   unit representations of m images by the momentum encoder     (m, d)
    M         the ensemble's similarities of the B images to the anchors   (B, m)
    tau_S     the student's temperature
    theta, mu, zeta    weights of the student, of its momentum copy, its momentum
"""

from collections.abc import Iterable

import torch
import torch.nn.functional as F
from torch import Tensor


def distillation_loss(q: Tensor, anchors: Tensor, M: Tensor, tau_S: float) -> Tensor:
    """FLESD Eq. 7-9: mean_i KL(p^i || q^i) over the same m anchors, where

        q_j^i = softmax_j(q_i . anchor_j / tau_S)     p_j^i = M_ij / sum_j M_ij

    M is not negative, and every row has something above 0.
    """
    log_q = F.log_softmax(q @ anchors.T / tau_S, dim=1)  # (B, m)
    p = target(M)
    return (torch.special.xlogy(p, p) - p * log_q).sum(dim=1).mean()


def target(M: Tensor) -> Tensor:
    """FLESD Eq. 8: rows that sum to 1."""
    return M / M.sum(dim=1, keepdim=True)


@torch.no_grad()
def follow(mu: Iterable[Tensor], theta: Iterable[Tensor], zeta: float) -> None:
    """FLESD Eq. 10, in place: mu <- zeta mu + (1 - zeta) theta."""
    for slow, fast in zip(mu, theta, strict=True):
        slow.lerp_(fast.detach(), 1 - zeta)
