"""MoCo: a query finds its key among the keys of earlier batches.

He et al., "Momentum Contrast for Unsupervised Visual Representation Learning", CVPR
2020, Eq. 1-2; FCL Eq. 1-3 and 6, with rows of other clients as further negatives.

    q         projections of the first views by the trained net             (N, d)
    k         projections of the second views by its slow copy, the target  (N, d)
    Q_l       the queue: keys of the client's earlier batches
    Q_s       rows shared by other clients (z_dict)
    tau, m    temperature; share of the old target kept in each step (--ema)

If the loss is repeated for views infused with styles (FedStyle), the infused keys have
a separate queue. Otherwise the style alone would distinguish an infused query from the
keys without a style.

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
    # Keys of the current step and the queue to add them to.
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
        """Create a second queue for the keys of repeated passes."""
        size, width = self.queue.rows.shape
        self.infused_queue = Queue(size, width, self.queue.rows.device)

    def step(self, batch) -> Forward:
        """Compare view 1 (by the net) with view 2 (by the target) and all negatives.

        A repeated pass also changes the target's h, without a gradient.
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
        """Add the keys to the queue; move the target towards the net (MoCo Eq. 2)."""
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
    """MoCo with a copy of the net for the target, and an empty queue."""
    *_, last = net.projector.parameters()  # The bias, or weights, of the last layer.
    remote = None if z_dict is None else normalise(z_dict.detach())
    rows = Queue(queue, len(last), last.device)
    return Moco(net, rows, temperature, ema, remote, remote_only)
