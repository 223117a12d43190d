"""MoCo: a query finds its own key among the keys of earlier batches.

He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR
2020, Eq. 1-2; FCL Eq. 1-3 and 6, where rows of other clients are further negatives.

    q         projections of the first views by the trained net             (N, d)
    k         projections of the second views by its slow copy, the target  (N, d)
    Q_l       the queue: keys of the client's own earlier batches
    Q_s       rows that other clients share (z_dict)
    tau, m    temperature; how much of the target stays in each step (--ema)

Where the loss is computed again of views that are infused with styles (FedStyle), their
keys have a queue of their own: a query is told from keys that are not infused by that
alone, whatever its image shows.

MoCo shuffles BatchNorm over several GPUs; here each net normalises by whole batches.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Change, Forward
from furlkit.objectives.momentum import Target
from furlkit.objectives.queue import Queue
from furlkit.objectives.simclr import normalise


def moco_loss(q: Tensor, k: Tensor, negatives: Tensor, tau: float) -> Tensor:
    """MoCo Eq. 1, FCL Eq. 1 and 6: for unit rows q, k and negatives n the mean of

    -log exp(q.k / tau) / (exp(q.k / tau) + sum_n exp(q.n / tau))
    """
    positive = (q * k).sum(dim=1, keepdim=True)  # (N, 1)
    # In place: with many negatives another copy of the logits takes noticeable time.
    logits = torch.cat([positive, q @ negatives.T], dim=1).div_(tau)  # (N, 1 + Q)
    labels = torch.zeros(len(q), dtype=torch.long, device=q.device)
    return F.cross_entropy(logits, labels)


class Moco(nn.Module):
    """The net, its target and the queue; only the net is trained."""

    net: Any
    # Keys of the step under way, with the queue that they enter after it.
    _new: list[tuple[Queue, Tensor]]

    def __init__(
        self,
        net: Any,
        queue: Queue,
        tau: float,
        ema: float,
        remote: Tensor | None,
        remote_only: bool,
    ):
        super().__init__()
        self.net, self.target, self.queue = net, Target(net), queue
        self.infused_queue: Queue | None = None
        self._tau, self._ema = tau, ema
        self._remote, self._remote_only = remote, remote_only and remote is not None

    def keep_infused(self) -> None:
        """From now on a pass may be made again, with a queue for its keys."""
        size, width = self.queue.rows.shape
        self.infused_queue = Queue(size, width, self.queue.rows.device)

    def step(self, batch) -> Forward:
        """View 1 through the net, view 2 through the target, against all negatives.

        Again, the target's own h changes as the net's does, without a gradient.
        """
        x_1, x_2 = batch.two_views().chunk(2)  # (N, C, S, S) each
        h, h_target = self.net.encoder(x_1), self.target.encode(x_2)
        self._new = []
        forward = self._forward(x_1, h, h_target, self.queue)
        if (queue := self.infused_queue) is None:
            return forward

        def again(change: Change) -> Forward:
            with torch.no_grad():
                changed = change(h_target, 1)
            return self._forward(x_1, change(h, 0), changed, queue)

        return forward._replace(again=again)

    def _forward(
        self, x_1: Tensor, h: Tensor, h_target: Tensor, queue: Queue
    ) -> Forward:
        z = self.net.projector(h)  # (N, d)
        k = self.target.project(h_target)  # (N, d)
        with torch.autocast(z.device.type, enabled=False):
            q, keys = normalise(z.float()), normalise(k.float())
            # FCL Eq. 3: the negatives are Q_l, then Q_s; Eq. 5: Q_s alone.
            Q_l, Q_s = queue.filled, self._remote
            rows = Q_l if Q_s is None else torch.cat([Q_l, Q_s])
            first = len(Q_l) if self._remote_only else 0
            loss = moco_loss(q, keys, rows[first:], self._tau)
        self._new.append((queue, keys))
        return Forward({"moco": loss}, x_1, h, z, rows)

    def after_step(self) -> None:
        """The keys enter the queue; MoCo Eq. 2: the target moves towards the net."""
        for queue, keys in self._new:
            queue.add(keys)
        self.target.follow(self.net, self._ema)


def learner(
    net: Any,
    *,
    temperature: float,
    ema: float,
    queue: int,
    z_dict: Tensor | None = None,
    remote_only: bool = False,
) -> Moco:
    """A target that starts as a copy of the net, and an empty queue."""
    *_, last = net.projector.parameters()  # The bias, or weights, of the last layer.
    remote = None if z_dict is None else normalise(z_dict.detach())
    rows = Queue(queue, len(last), last.device)
    return Moco(net, rows, temperature, ema, remote, remote_only)
