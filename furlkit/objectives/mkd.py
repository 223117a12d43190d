"""FedMKD: a student learns a mixture of several teachers, weighted for every image.

Li et al., "Resource-Aware Federated Self-Supervised Learning with Global Class
Representations", NeurIPS 2024.

    p           the student's predictions of two views of B images, p = predictor(z)  (N, d)
    t_c         projections of the views by teacher c, a client's frozen net       (N, C, d)
    a           the adapter, a small MLP from d to k numbers, trained with the student
    W_q, W_k    matrices of the attention, trained with the student                   (k, k)
    w           weights of the teachers, the adaptive integration                     (N, C)
    t           the mixture of the teachers                                           (N, d)
    tau         temperature;   lambda   weight of the distillation

    w_c  = softmax_c(<a(p) W_q, a(t_c) W_k> / k)              t = sum_c w_c t_c
    L    = lambda InfoNCE(p, t) + (1 - lambda) L_BYOL          on public images

    alignment of a client: L_BYOL with z' of the frozen global net instead of a slow copy

InfoNCE contrasts a row with its positive and with rows of earlier batches in a queue.

The paper was not at hand: its abstract names the integration, the weighted sum and the
alignment, and the equations follow the authors' code. In the code the mixture is the
query and the student's prediction a key without a gradient, so that the distillation
reaches the student through the weights w only: `--query teacher`. By default the
student is the query. In the code, attention, queue and slow copy live as long as the
run; here they start anew in every round, and the queue starts empty.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.byol import byol_loss
from furlkit.objectives.learner import Forward
from furlkit.objectives.momentum import Target
from furlkit.objectives.queue import Queue
from furlkit.objectives.simclr import normalise

Project = Callable[[Tensor], Tensor]


def attention_weights(a_p: Tensor, a_t: Tensor, W_q: Tensor, W_k: Tensor) -> Tensor:
    """w (N, C) of adapted predictions a_p (N, k) and adapted teachers a_t (N, C, k)."""
    queries, keys = a_p @ W_q, a_t @ W_k  # (N, k) and (N, C, k)
    scores = torch.linalg.vecdot(keys, queries[:, None]) / len(W_q)
    return F.softmax(scores, dim=1)


def mixture(w: Tensor, t: Tensor) -> Tensor:
    """sum_c w_c t_c: weights (N, C), teachers (N, C, d) -> (N, d)."""
    return torch.linalg.vecdot(w[..., None].expand_as(t), t, dim=1)


def info_nce(query: Tensor, key: Tensor, queue: Tensor, tau: float) -> Tensor:
    """CE([query . key, query . queue^T] / tau, 0), the mean over rows.

    query and key (N, d) are normalised here, queue (K, d) has unit rows.
    """
    query, key = normalise(query), normalise(key)
    own = torch.linalg.vecdot(query, key)[:, None]  # (N, 1)
    logits = torch.cat([own, query @ queue.T], dim=1) / tau  # (N, 1 + K)
    first = torch.zeros(len(query), dtype=torch.long, device=query.device)
    return F.cross_entropy(logits, first)


class Attention(nn.Module):
    """The adapter and the matrices; k is the width of the adapter's output.

    W_q and W_k are linear layers without a bias, so that one function draws all weights.
    """

    def __init__(self, adapter: nn.Module, k: int) -> None:
        super().__init__()
        self.adapter = adapter
        self.query = nn.Linear(k, k, bias=False)
        self.key = nn.Linear(k, k, bias=False)

    def forward(self, p: Tensor, t: Tensor) -> Tensor:
        """w (N, C); the teachers' rows of all images pass the adapter in one call."""
        N, C, _ = t.shape
        a_t = self.adapter(t.flatten(0, 1)).unflatten(0, (N, C))
        W_q, W_k = self.query.weight.T, self.key.weight.T
        return attention_weights(self.adapter(p), a_t, W_q, W_k)


class Student(nn.Module):
    """The student, a slow copy, the attention and the queue.

    `attention` None weighs the teachers equally. The teachers are no part of the state:
    they never change.
    """

    net: Any
    weight: Tensor
    steps: Tensor
    _rows: Tensor  # Keys of the current step.

    def __init__(
        self,
        net: Any,
        teachers: Sequence[Project],
        attention: Attention | None,
        *,
        width: int,
        temperature: float,
        distillation: float,
        ema: float,
        query: str,
        queue: int,
    ) -> None:
        super().__init__()
        self.net, self.attention = net, attention
        self.target = Target(net)
        device = next(net.parameters()).device
        self.queue = Queue(queue, width, device)
        self._teachers, self._tau, self._ema = (*teachers,), temperature, ema
        self._lambda, self._query = distillation, query
        self.register_buffer("weight", torch.zeros(len(teachers), device=device))
        self.register_buffer("steps", torch.zeros((), device=device))

    def step(self, batch) -> Forward:
        """Both losses of a batch, from two views of every image."""
        x = batch.two_views()  # (2B, C, S, S)
        h = self.net.encoder(x)
        z = self.net.projector(h)
        p = self.net.predictor(z)  # (2B, d)
        z_slow = self.target(x)
        with torch.no_grad():
            t = torch.stack([teacher(x) for teacher in self._teachers], dim=1)
        with torch.autocast(p.device.type, enabled=False):
            p, z_slow, t = p.float(), z_slow.float(), t.float()
            losses = {
                "distillation": self._lambda * self._distilled(p, t),
                "byol": (1 - self._lambda) * byol_pair(p, z_slow),
            }
        return Forward(losses, x, h, z)

    def _distilled(self, p: Tensor, t: Tensor) -> Tensor:
        w = t.new_full(t.shape[:2], 1 / t.shape[1])
        if self.attention is not None:
            w = self.attention(p, t)
        self._note(w)
        mixed = mixture(w, t)
        query, key = (p, mixed) if self._query == "student" else (mixed, p.detach())
        self._rows = normalise(key.detach())
        return info_nce(query, key, self.queue.filled, self._tau)

    @torch.no_grad()
    def _note(self, w: Tensor) -> None:
        self.weight += w.mean(dim=0)
        self.steps += 1

    def after_step(self) -> None:
        """Move the slow copy; add the keys of the step to the queue."""
        self.target.follow(self.net, self._ema)
        self.queue.add(self._rows)

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """Mean weight of every teacher in the epoch."""
        shares = (self.weight / self.steps).tolist()
        self.weight.zero_()
        self.steps.zero_()
        return {"teacher_weights": shares}


def byol_pair(p: Tensor, z: Tensor) -> Tensor:
    """BYOL Eq. 2 of both directions: each view predicts z of the second view."""
    (p_1, p_2), (z_1, z_2) = p.chunk(2), z.chunk(2)
    return byol_loss(p_1, z_2) + byol_loss(p_2, z_1)


def anchored_step(net: Any, batch: Any, *, anchor: Project) -> Forward:
    """Alignment: the predictions of a client's net follow z of the frozen global net."""
    x = batch.two_views()
    h = net.encoder(x)
    z = net.projector(h)
    p = net.predictor(z)
    with torch.no_grad():
        g = anchor(x)
    with torch.autocast(p.device.type, enabled=False):
        loss = byol_pair(p.float(), g.float())
    return Forward({"anchor": loss}, x, h, z)
