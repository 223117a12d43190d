"""Similarity distillation: a student copies the similarities of an ensemble of models.

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
    """FLESD Eq. 7-9: mean_i KL(p^i || q^i) over m anchors, with

        q_j^i = softmax_j(q_i . anchor_j / tau_S)     p_j^i = M_ij / sum_j M_ij

    M is not negative, and every row has a positive entry.
    """
    log_q = F.log_softmax(q @ anchors.T / tau_S, dim=1)  # (B, m)
    p = target(M)
    return (torch.special.xlogy(p, p) - p * log_q).sum(dim=1).mean()


def target(M: Tensor) -> Tensor:
    """FLESD Eq. 8: scale rows to a sum of 1."""
    return M / M.sum(dim=1, keepdim=True)


class Similarity(Protocol):
    """Function from positions of images and anchors, tensors on `device`, to M."""

    @property
    def device(self) -> torch.device:
        """Device that computes or reads M."""

    def __call__(self, images: Tensor, anchors: Tensor) -> Tensor:
        """M[images][:, anchors], (B, m)."""


class Distiller(nn.Module):
    """The student, its slow copy and the queue of anchors; only the student is trained.

    `queue` holds representations of m anchors, `anchors` their positions in the public
    set. Each step replaces the oldest anchors by its images, so every image of the step
    is among the anchors.

    `similarities(images, anchors)` returns rows of M, for positions on the device of
    `similarities`; `layer` is h or z.
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
        """Copy the anchors' positions to the CPU, for a matrix on disk."""
        self._anchors_cpu = self.anchors.cpu()

    def represent(self, net, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return h, and unit rows of h or z."""
        h = net.encoder(images)
        rows = net.projector(h) if self._layer == "z" else h
        return h, normalise(rows.float())

    @torch.no_grad()
    def fill(self, batches: Iterable) -> None:
        """Fill the queue once, with keys of random images, before the first step.

        The steps of `batches` end at -1; step 0 then replaces the oldest keys.
        """
        self.train()
        for batch in batches:
            self._enter_places(batch)
            self._enqueue(self.represent(self.slow, batch.one_view())[1], batch)

    def step(self, batch) -> Forward:
        """Compare the student's view of a batch with the queue and with the ensemble.

        The order matters: the copy moves before it computes the keys, and the keys
        enter the queue before the query is compared with the queue.
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
