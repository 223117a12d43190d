"""Slow copies of a network, which follow the trained one.

    slow, fast    parameters of the copy and of the trained network
    m             momentum: how much of the copy stays in each step

MoCo, BYOL and FLESD (Eq. 10) all use it. The copy moves towards the trained network,
never the other way.
"""

from collections.abc import Iterable

import torch
from torch import Tensor


@torch.no_grad()
def follow(slow: Iterable[Tensor], fast: Iterable[Tensor], m: float) -> None:
    """FLESD Eq. 10, BYOL Eq. 1, in place: slow <- m slow + (1 - m) fast."""
    for copy, trained in zip(slow, fast, strict=True):
        copy.lerp_(trained.detach(), 1 - m)
