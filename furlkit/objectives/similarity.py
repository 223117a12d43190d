"""Similarity distillation: a student arranges images as an ensemble of models does.

Shi et al., "Towards Communication-Efficient and Privacy-Preserving Federated
Representation Learning", FLESD, Eq. 7-10.

    q         the student's unit representations of B images               (B, d)
    anchors   unit representations of m images by the momentum encoder     (m, d)
    M         the ensemble's similarities of the B images to the anchors   (B, m)
    tau_S     the student's temperature
    zeta      momentum of the student's slow copy
"""

from collections.abc import Iterable
from copy import deepcopy
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.momentum import follow
from furlkit.objectives.simclr import normalise


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


class Similarity(Protocol):
    """Gives M for places of images and of anchors, all of them on `device`."""

    @property
    def device(self) -> torch.device:
        """Where M is computed or read."""

    def __call__(self, images: Tensor, anchors: Tensor) -> Tensor:
        """M[images][:, anchors], (B, m)."""


class Distiller(nn.Module):
    """The student, its slow copy and the queue of anchors; only the student is trained.

    `queue` holds representations of m anchors and `anchors` their places in the public
    set. The oldest are replaced by those of each step, so that with its own key in the
    queue an image always finds itself among the anchors.

    `similarities(images, anchors)` gives rows of M for places on its device; `layer` is
    h or z.
    """

    queue: Tensor
    anchors: Tensor

    def __init__(
        self,
        net: nn.Module,
        similarities: Similarity,
        *,
        layer: str,
        width: int,
        anchors: int,
        temperature: float,
        ema: float,
    ):
        super().__init__()
        self.net, self._similarities, self._layer = net, similarities, layer
        self._tau_S, self._zeta = temperature, ema
        self.slow = deepcopy(net).requires_grad_(False)
        device = next(net.parameters()).device
        self.register_buffer("queue", torch.zeros(anchors, width, device=device))
        numbers = torch.zeros(anchors, dtype=torch.long, device=device)
        self.register_buffer("anchors", numbers)
        self._copy_anchors()
        self.register_load_state_dict_post_hook(lambda own, _: own._copy_anchors())

    def _copy_anchors(self) -> None:
        """Note the anchors' places on the CPU too, where a matrix on disk is read."""
        self._anchors_cpu = self.anchors.cpu()

    def represent(self, net, images: Tensor) -> tuple[Tensor, Tensor]:
        """h, and unit rows of h or z."""
        h = net.encoder(images)
        rows = net.projector(h) if self._layer == "z" else h
        return h, normalise(rows.float())

    @torch.no_grad()
    def fill(self, batches: Iterable) -> None:
        """Fill the queue once, with keys of random images, before the first step.

        The steps of `batches` count up to -1, so that step 0 replaces the oldest keys.
        """
        self.train()
        for batch in batches:
            self._enter_places(batch)
            self._enqueue(self.represent(self.slow, batch.one_view())[1], batch)

    def step(self, batch) -> Forward:
        """The student's view of a batch against the queue, compared with the ensemble.

        The order matters: the copy follows before it makes the keys, and the keys enter
        the queue before the query is compared with it.
        """
        self._enter_places(batch)
        views, sent = batch.separate_views(None, None, also=self._rows_from_disk(batch))
        x, x_slow = views
        h, q = self.represent(self.net, x)  # (B, d)
        follow(self.slow.parameters(), self.net.parameters(), self._zeta)
        with torch.no_grad():
            keys = self.represent(self.slow, x_slow)[1]
        self._enqueue(keys, batch)
        with torch.autocast(q.device.type, enabled=False):
            M = sent[0] if sent else self._similarities(batch.index, self.anchors)
            loss = distillation_loss(q, self.queue, M, self._tau_S)
        return Forward({"distillation": loss}, x, h, q)

    def _rows_from_disk(self, batch) -> list[Tensor]:
        """M, if it is read on the CPU for a student on another device."""
        if self._similarities.device == self.queue.device:
            return []
        return [self._similarities(batch.index_cpu, self._anchors_cpu)]

    def _enqueue(self, keys: Tensor, batch) -> None:
        """First in, first out; the place in the queue follows from the step."""
        size = len(self.queue)
        place = _places_in_queue(batch, size, keys.device)
        self.queue[place] = keys[-size:].to(self.queue.dtype)

    def _enter_places(self, batch) -> None:
        """Note which images the keys of the batch belong to."""
        size, device = len(self.anchors), self.anchors.device
        place = _places_in_queue(batch, size, device)
        self.anchors[place] = batch.index[-size:]
        if self._anchors_cpu is not self.anchors:
            place = _places_in_queue(batch, size, torch.device("cpu"))
            self._anchors_cpu[place] = batch.index_cpu[-size:]


def _places_in_queue(batch: Any, size: int, device: torch.device) -> Tensor:
    count = len(batch.index_cpu)
    first = batch.step * count
    return torch.arange(first, first + count, device=device)[-size:] % size
