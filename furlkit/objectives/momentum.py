"""Slow copies of a network that follow the trained network.

    slow, fast    parameters of the copy and of the trained network
    m             momentum: share of the old copy kept in each step

MoCo, BYOL and FLESD (Eq. 10) use slow copies. The copy moves towards the trained
network, never the reverse.
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

TARGET_PARTS = ("encoder", "projector")


@torch.no_grad()
def follow(slow: Iterable[Tensor], fast: Iterable[Tensor], m: float) -> None:
    """FLESD Eq. 10, BYOL Eq. 1, in place: slow <- m slow + (1 - m) fast."""
    for copy, trained in zip(slow, fast, strict=True):
        copy.lerp_(trained.detach(), 1 - m)


class Target(nn.ModuleDict):
    """Slow copy of parts of a net, by default encoder and projector, without gradients.

    BatchNorm in the copy uses the statistics of the copy's batches.
    """

    def __init__(self, net: Any, parts: Iterable[str] = TARGET_PARTS) -> None:
        super().__init__({name: deepcopy(getattr(net, name)) for name in parts})
        self.requires_grad_(False)

    @torch.no_grad()
    def encode(self, x: Tensor) -> Tensor:
        """The copy's h of x."""
        return self["encoder"](x)

    @torch.no_grad()
    def project(self, h: Tensor) -> Tensor:
        """The copy's z of h."""
        return self["projector"](h)

    def forward(self, x: Tensor) -> Tensor:
        """The copy's z of x."""
        return self.project(self.encode(x))

    def follow(self, net: Any, m: float) -> None:
        """Move towards the net."""
        for name, copy in self.items():
            follow(copy.parameters(), getattr(net, name).parameters(), m)
