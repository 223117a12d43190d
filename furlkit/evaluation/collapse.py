"""Collapse meter: the number of dimensions used by a batch of projections."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

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
