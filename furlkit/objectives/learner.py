"""What an objective gives the training loop.

A stateless objective is a function `step(net, batch, **options) -> Forward`. One that
carries something along (a slow copy of the net, a queue, cluster assignments) is a
`Learner`: an nn.Module whose `net` is trained and whose state_dict is all that has to be
saved to resume.
"""

from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Forward(NamedTuple):
    """One forward pass: named losses, and what terms and the collapse meter look at.

    `views` are the images the net saw, `h` the encoder's output, `z` what the loss
    compares, where that is not h. `rows` are unit rows of z, without gradient, that are
    the same for all images: the client's own of earlier batches and those of other
    clients (FCL's Q_l and Q_s), whether or not the loss takes them as negatives. They
    may be none, (0, d); None stands for an objective that never has any.

    With `skip` the step moves nothing, neither by momentum nor by weight decay; its
    losses count in the epoch's mean all the same.
    """

    losses: dict[str, Tensor]
    views: Tensor
    h: Tensor
    z: Tensor | None = None
    rows: Tensor | None = None
    skip: bool = False


class Learner(Protocol):
    """What the loop calls. All but `step` may be left out."""

    net: Any

    def step(self, batch: Any) -> Forward:
        """The losses of one batch."""

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Before an epoch, counted from 0: k-means, mining of neighbours."""

    def after_step(self) -> None:
        """After the optimiser has moved the weights: moving averages, queues."""

    def end_epoch(self, losses: dict[str, float]) -> dict[str, float]:
        """After an epoch with these mean losses: what the journal says of it besides."""


class Stateless(nn.Module):
    """A learner that is nothing but a net and a step."""

    def __init__(self, net: nn.Module, step: Callable[..., Forward]):
        super().__init__()
        self.net, self._step = net, step

    def step(self, batch: Any) -> Forward:
        """The losses of one batch."""
        return self._step(self.net, batch)
