"""Barlow Twins: two views agree in every number of z, and the numbers are uncorrelated.

Zbontar et al., "Barlow Twins: Self-Supervised Learning via Redundancy Reduction", ICML
2021, Eq. 1-2 and Algorithm 1.

    z_1, z_2    projections of two views of N images, rows in one order
    C           correlations between columns of z_1 and columns of z_2    (d, d)
    lambda      weight of the off-diagonal correlations
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward, Through, repeatable


def standardise(z: Tensor) -> Tensor:
    """Columns of mean 0 and standard deviation 1 over the batch."""
    return F.batch_norm(z, None, None, training=True)


def barlow_loss(z_1: Tensor, z_2: Tensor, redundancy: float) -> Tensor:
    """Barlow Twins Eq. 1-2, with lambda = `redundancy`:

    sum_i (1 - C_ii)^2 + lambda sum_{i != j} C_ij^2        C = z_1^T z_2 / N
    """
    C = standardise(z_1).T @ standardise(z_2) / len(z_1)  # (d, d)
    diagonal = C.diagonal()
    rest = C.square().sum() - diagonal.square().sum()
    return (1 - diagonal).square().sum() + redundancy * rest


def step(net, batch, redundancy: float) -> Forward:
    """Encode both views in one forward pass."""
    x = batch.two_views()  # (2N, C, S, S)

    def forward(h: Tensor, through: Through) -> Forward:
        z = through(net.projector, h)  # (2N, d)
        with torch.autocast(z.device.type, enabled=False):
            z_1, z_2 = z.float().chunk(2)
            loss = barlow_loss(z_1, z_2, redundancy)
        return Forward({"barlow": loss}, x, h, z)

    return repeatable(forward, net.encoder(x))
