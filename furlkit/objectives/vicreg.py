"""VICReg: views agree, every number of z varies, and different numbers do not covary.

Bardes et al., "VICReg: Variance-Invariance-Covariance Regularization for
Self-Supervised Learning", ICLR 2022, Eq. 1-6.

    z_1, z_2          projections of two views of N images, rows in one order    (N, d)
    S                 standard deviation of each column of z                     (d)
    C                 covariances between columns of z                           (d, d)
    lambda, mu, nu    weights of invariance, variance and covariance

The authors' code differs from the printed equations by constant factors: the code also
divides the invariance (Eq. 5) by d and the variance of both views (Eq. 6) by 2. The
published weights 25, 25, 1 belong to the code, so the functions follow the code.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward, Through, repeatable

GAMMA = 1.0  # Smallest standard deviation without a loss.
EPSILON = 1e-4  # Added to variances, for a finite gradient of the root.


class Weights(NamedTuple):
    """Weights of the three parts: lambda, mu and nu."""

    invariance: float
    variance: float
    covariance: float


def invariance(z_1: Tensor, z_2: Tensor) -> Tensor:
    """VICReg Eq. 5, divided by d: the mean over rows and columns of (z_1 - z_2)^2."""
    return (z_1 - z_2).square().mean()


def variance(z: Tensor) -> Tensor:
    """VICReg Eq. 1-2: the mean over columns of max(0, gamma - sqrt(Var(z_j) + eps))."""
    S = (z.var(dim=0) + EPSILON).sqrt()  # (d)
    return F.relu(GAMMA - S).mean()


def covariance(z: Tensor) -> Tensor:
    """VICReg Eq. 3-4: sum_{i != j} C_ij^2 / d, C = (z - mean)^T (z - mean) / (N - 1)."""
    N, d = z.shape
    centred = z - z.mean(dim=0)
    C = centred.T @ centred / (N - 1)  # (d, d)
    return (C.square().sum() - C.diagonal().square().sum()) / d


def vicreg_loss(z_1: Tensor, z_2: Tensor, weights: Weights) -> Tensor:
    """VICReg Eq. 6 with s the invariance, v the variance and c the covariance:

    lambda s(z_1, z_2) + mu (v(z_1) + v(z_2)) / 2 + nu (c(z_1) + c(z_2))
    """
    return (
        weights.invariance * invariance(z_1, z_2)
        + weights.variance * (variance(z_1) + variance(z_2)) / 2
        + weights.covariance * (covariance(z_1) + covariance(z_2))
    )


def step(
    net,
    batch,
    invariance_weight: float,
    variance_weight: float,
    covariance_weight: float,
) -> Forward:
    """Encode both views in one forward pass."""
    x = batch.two_views()  # (2N, C, S, S)
    weights = Weights(invariance_weight, variance_weight, covariance_weight)

    def forward(h: Tensor, through: Through) -> Forward:
        z = through(net.projector, h)  # (2N, d)
        with torch.autocast(z.device.type, enabled=False):
            z_1, z_2 = z.float().chunk(2)
            loss = vicreg_loss(z_1, z_2, weights)
        return Forward({"vicreg": loss}, x, h, z)

    return repeatable(forward, net.encoder(x))
