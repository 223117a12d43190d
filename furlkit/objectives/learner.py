"""Interface between objectives and the training loop.

A stateless objective is a function `step(net, batch, **options) -> Forward`. A stateful
objective (with a slow copy of the net, a queue, cluster assignments) is a `Learner`: an
nn.Module with a trained `net`, and a state_dict that is sufficient to resume.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn


class Forward(NamedTuple):
    """One forward pass: named losses, and tensors for terms and the collapse meter.

    `views`: input images. `h`: output of the encoder. `z`: rows compared by the loss,
    if not h. `rows`: unit rows of z without gradient, common to all images: the
    client's rows of earlier batches and other clients' rows (FCL's Q_l and Q_s), even
    if the loss does not use them as negatives; may be empty, (0, d), or None for
    objectives without rows.

    `again(change)` repeats the pass with `change(h, view)` instead of h, for view 0 and
    1, in the net and in its slow copy. None if the loss does not compare two views.

    `counts`: a bool on the device. If false, the optimiser does not step, neither by
    momentum nor by weight decay; the losses still enter the epoch's mean.
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
    """Apply `change` to h of the first views (0) and to h of the second views (1)."""
    h_1, h_2 = h.chunk(2)
    return torch.cat([change(h_1, 0), change(h_2, 1)])


def together(head: Any, rows: Tensor) -> Tensor:
    """Pass both views through a head in one call, the faster way."""
    return head(rows)


def apart(head: Any, rows: Tensor) -> Tensor:
    """Pass the views through a head one by one, with separate BatchNorm statistics.

    Differently changed views are two populations. Under common statistics, the mean of
    a view would reveal the view, and the loss would learn little more.
    """
    return torch.cat([head(view) for view in rows.chunk(2)])


def repeatable(forward: Callable[[Tensor, Through], Forward], h: Tensor) -> Forward:
    """Return the pass `forward` from h of both views; `again` repeats `forward`."""
    return forward(h, together)._replace(
        again=lambda change: forward(changed_views(h, change), apart)
    )


def repeatable_with_target(
    forward: Callable[[Tensor, Tensor, Through], Forward], h: Tensor, h_target: Tensor
) -> Forward:
    """Like `repeatable`, with h of a slow copy of the net, changed without a gradient."""

    def again(change: Change) -> Forward:
        with torch.no_grad():
            changed = changed_views(h_target, change)
        return forward(changed_views(h, change), changed, apart)

    return forward(h, h_target, together)._replace(again=again)


class Learner(Protocol):
    """Methods called by the loop; only `step` is required."""

    net: Any

    def step(self, batch: Any) -> Forward:
        """Return the losses of one batch."""

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Prepare an epoch, counted from 0: run k-means, mine neighbours."""

    def choose(self, index: Tensor, rng: torch.Generator) -> Tensor:
        """Positions of the images that a step with this batch and generator encodes.

        For a step that encodes other images than the batch; mapped images are then
        gathered one step ahead. `step` must draw them first of all.
        """

    def after_step(self) -> None:
        """Update moving averages and queues after the optimiser's step."""

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """Return extra measures for the journal, given the epoch's mean losses."""

    def keep_infused(self) -> None:
        """Allocate a second queue for repeated passes, before the first step."""


class Stateless(nn.Module):
    """A learner without state: a net and a step function."""

    def __init__(self, net: nn.Module, step: Callable[..., Forward]):
        super().__init__()
        self.net, self._step = net, step

    @property
    def function(self) -> Callable[..., Forward]:
        """The step function, without the options."""
        step = self._step
        return step.func if isinstance(step, partial) else step

    def step(self, batch: Any) -> Forward:
        """Return the losses of one batch."""
        return self._step(self.net, batch)
