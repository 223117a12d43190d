"""Meters of representations without labels: collapse, and ranks that predict quality."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

RANKME_EPSILON = 1e-7
LIDAR_DELTA = 1e-4  # Added to the variances within images.
NOISE = 1e-6  # Float32 rounding, relative to the largest possible singular value.


def spread(z: Tensor) -> float:
    """sqrt(d) times the mean over dimensions of the std of unit rows; z (N, d).

    1 if directions are isotropic, 0 if all rows have one direction. Chen and He,
    "Exploring Simple Siamese Representation Learning", CVPR 2021, section 4.1.
    """
    unit = F.normalize(z.detach().float(), dim=1)
    return float(unit.std(dim=0, correction=0).mean()) * math.sqrt(z.shape[1])


def effective_rank(z: Tensor) -> float:
    """exp(-sum_k p_k log p_k), p_k the k-th singular value over their sum; z (N, d).

    The singular values belong to the centred unit rows. At most min(N, d); 1 if all
    rows have one direction; NaN if z is not finite. Roy and Vetterli,
    "The effective rank", EUSIPCO 2007, definition 1.
    """
    unit = F.normalize(z.detach().float(), dim=1)
    if not torch.isfinite(unit).all():
        return math.nan
    s = torch.linalg.svdvals(unit - unit.mean(dim=0))  # (min(N, d),)
    s = s[s > NOISE * math.sqrt(len(z))]
    if len(s) == 0:
        return 1.0
    return float(torch.special.entr(s / s.sum()).sum().exp())


def rankme(z: Tensor) -> float:
    """exp(-sum_k p_k log p_k), p_k = s_k / sum_k s_k + 1e-7, s singular values of z (N, d).

    Unlike `effective_rank`, rows are neither centred nor normalised. At most min(N, d).
    Garrido et al., "RankMe: Assessing the Downstream Performance of Pretrained
    Self-Supervised Representations by Their Rank", ICML 2023. NaN if z is not
    finite, 1 if z is 0. The paper measures many images, here z may be one batch.
    """
    z = z.detach().float()
    if not torch.isfinite(z).all():
        return math.nan
    return _rank_of(torch.linalg.svdvals(z), RANKME_EPSILON)


def lidar(one: Tensor, other: Tensor) -> float:
    """LiDAR of two views: the effective rank of images against views; rows (n, d).

        S_b = sum_i (m_i - m)(m_i - m)^T / (n - 1)            m_i mean of the views of image i
        S_w = sum_ij (e_ij - m_i)(e_ij - m_i)^T / n + delta I   e_ij view j of image i
        exp(-sum_k p_k log p_k),  p_k = l_k / sum_k l_k + 1e-7,
        l_k eigenvalues of S_w^-1/2 S_b S_w^-1/2

    Thilak et al., "LiDAR: Sensing Linear Probing Performance in Joint Embedding SSL
    Architectures", ICLR 2024; the paper draws 50 views of an image, here 2. The paper
    was not at hand; delta 1e-4 is our choice, public programs have 1e-5 and 1e-6. In
    float64.
    """
    one, other = one.double(), other.double()
    if not (torch.isfinite(one).all() and torch.isfinite(other).all()):
        return math.nan
    n, d = one.shape
    m = (one + other) / 2
    centred, half = m - m.mean(dim=0), (one - other) / math.sqrt(2)
    if float(centred.norm()) <= NOISE * float(m.norm()):
        return 1.0  # All images are equal but for rounding.
    # With two views the sum of squares around m_i is (e_i1 - e_i2)^2 / 2.
    S_w = half.T @ half / n + LIDAR_DELTA * torch.eye(d, dtype=m.dtype, device=m.device)
    L = torch.linalg.cholesky(S_w)
    # Any root of S_w gives these eigenvalues, and a triangular root is the fastest.
    rows = torch.linalg.solve_triangular(L, centred.T, upper=False)  # (d, n)
    product = rows @ rows.T if d <= n else rows.T @ rows
    return _rank_of(
        torch.linalg.eigvalsh(product / (n - 1)).clamp(min=0), RANKME_EPSILON
    )


def _rank_of(s: Tensor, epsilon: float) -> float:
    if not float(s.sum()):
        return 1.0
    p = s / s.sum() + epsilon
    return float((-p * p.log()).sum().exp())
