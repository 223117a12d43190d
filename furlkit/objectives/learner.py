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

    `again(change)` is the same pass with `change(h, view)` in the place of every h, that
    of view 0 or 1, by the net or by its slow copy. None stands for an objective whose
    loss is not one of two views of an image.

    `counts` is a bool on the device. If it is false, the optimiser moves nothing, neither
    by momentum nor by weight decay; the losses enter the epoch's mean all the same.
    """

    losses: dict[str, Tensor]
    views: Tensor
    h: Tensor
    z: Tensor | None = None
    rows: Tensor | None = None
    again: "Callable[[Change], Forward] | None" = None
    counts: Tensor | None = None


Change = Callable[[Tensor, int], Tensor]
Through = Callable[[Any, Tensor], Tensor]


def changed_views(h: Tensor, change: Change) -> Tensor:
    """h of all first views, then of all second ones, each changed as its view is."""
    h_1, h_2 = h.chunk(2)
    return torch.cat([change(h_1, 0), change(h_2, 1)])


def together(head: Any, rows: Tensor) -> Tensor:
    """Both views through a head at once, the faster way."""
    return head(rows)


def apart(head: Any, rows: Tensor) -> Tensor:
    """One view after the other, so that BatchNorm normalises each by itself.

    Views that were changed differently are two populations. Normalised together they
    would be told apart by what all rows of a view share, and by little else.
    """
    return torch.cat([head(view) for view in rows.chunk(2)])


def repeatable(forward: Callable[[Tensor, Through], Forward], h: Tensor) -> Forward:
    """The pass that `forward` makes from h of both views, with itself as `again`."""
    return forward(h, together)._replace(
        again=lambda change: forward(changed_views(h, change), apart)
    )


class Learner(Protocol):
    """What the loop calls. All but `step` may be left out."""

    net: Any

    def step(self, batch: Any) -> Forward:
        """The losses of one batch."""

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Before an epoch, counted from 0: k-means, mining of neighbours."""

    def choose(self, index: Tensor, rng: torch.Generator) -> Tensor:
        """Positions of the images that a step with this batch and generator encodes.

        For a step that encodes other images than the batch; mapped images are then
        gathered one step ahead. `step` must draw them first of all.
        """

    def after_step(self) -> None:
        """After the optimiser has moved the weights: moving averages, queues."""

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """After an epoch with these mean losses: what the journal says of it besides."""

    def keep_infused(self) -> None:
        """Before the first step, where passes are made again: room for a second queue."""


class Stateless(nn.Module):
    """A learner that is nothing but a net and a step."""

    def __init__(self, net: nn.Module, step: Callable[..., Forward]):
        super().__init__()
        self.net, self._step = net, step

    def step(self, batch: Any) -> Forward:
        """The losses of one batch."""
        return self._step(self.net, batch)
