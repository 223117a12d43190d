"""SwAV: each view predicts the code of the second view, a share for every prototype.

Caron et al., "Unsupervised Learning of Visual Features by Contrasting Cluster
Assignments", NeurIPS 2020, Eq. 1-5; the objective of FedSwAV.

    z_1, z_2        unit projections of two views of N images                 (N, d)
    C               the prototypes, unit rows of a linear head                (K, d)
    s = z C^T       scores                                                    (N, K)
    q               codes: rows of probabilities, prototypes equally used     (N, K)
    tau, epsilon    temperature of the predictions; smoothness of the codes

Prototypes are frozen in the first steps of a run, and codes use features of earlier
batches only later in the run. The head counts the steps of the whole run, over all
rounds: the count travels with the model, and a mean takes the largest count.
"""

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.queue import Queue
from furlkit.objectives.simclr import normalise


@torch.no_grad()
def sinkhorn(scores: Tensor, epsilon: float, iterations: int) -> Tensor:
    """SwAV Eq. 3-5: codes q near exp(s / epsilon), with columns that sum to N / K.

    Each iteration scales columns to 1 / K, then rows to 1 / N (Sinkhorn and Knopp); at
    the end each row is a distribution over prototypes.
    """
    # Subtracting the largest score changes nothing: rows and columns are scaled anyway.
    q = ((scores - scores.max()) / epsilon).exp()  # (N, K)
    for _ in range(iterations):
        q = q / q.sum(dim=0, keepdim=True) / q.shape[1]
        q = q / q.sum(dim=1, keepdim=True) / q.shape[0]
    return q * q.shape[0]


def code_loss(scores: Tensor, codes: Tensor, tau: float) -> Tensor:
    """SwAV Eq. 2: the mean over rows of - sum_k q_k log softmax(s / tau)_k."""
    return -(codes * F.log_softmax(scores / tau, dim=1)).sum(dim=1).mean()


def swav_loss(
    scores: tuple[Tensor, Tensor], codes: tuple[Tensor, Tensor], tau: float
) -> Tensor:
    """SwAV Eq. 1, halved (authors' code): scores of one view, codes of the other."""
    (s_1, s_2), (q_1, q_2) = scores, codes
    return (code_loss(s_1, q_2, tau) + code_loss(s_2, q_1, tau)) / 2


class Settings(NamedTuple):
    """Options of SwAV by name."""

    temperature: float
    epsilon: float
    sinkhorn_iterations: int
    freeze_steps: int
    queue: int
    queue_after: int


class Swav(nn.Module):
    """The net with prototypes, and a queue of features for each view."""

    net: Any
    queue: Any
    # Of the current step: number of earlier steps of the run, and features.
    _now: int
    _z: tuple[Tensor, Tensor]

    def __init__(self, net: Any, settings: Settings):
        super().__init__()
        self.net, self._settings, weight = net, settings, net.prototypes.weight
        width, device = weight.shape[1], weight.device
        queues = (Queue(settings.queue, width, device) for _ in range(2))
        self.queue = nn.ModuleList(queues)

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Normalise the prototypes: a mean of unit rows is shorter than 1."""
        self._normalise_prototypes()

    def step(self, batch) -> Forward:
        """Encode both views in one forward pass; codes take no gradient."""
        x = batch.two_views()  # (2N, C, S, S)
        self._now = int(self.net.prototypes.steps)
        h = self.net.encoder(x)
        z = self.net.projector(h)  # (2N, d)
        with torch.autocast(z.device.type, enabled=False):
            unit = normalise(z.float())
            s_1, s_2 = self._scores(unit).chunk(2)  # (N, K) each
            codes = self._codes(s_1.detach(), 0), self._codes(s_2.detach(), 1)
            loss = swav_loss((s_1, s_2), codes, self._settings.temperature)
        z_1, z_2 = unit.detach().chunk(2)
        self._z = z_1, z_2
        return Forward({"swav": loss}, x, h, z)

    def after_step(self) -> None:
        """Normalise the prototypes; add the features to the queues."""
        if self._now >= self._settings.freeze_steps:
            self._normalise_prototypes()
        if self._now >= self._settings.queue_after:
            for queue, z in zip(self.queue, self._z, strict=True):
                queue.add(z)
        self.net.prototypes.steps += 1

    def _scores(self, z: Tensor) -> Tensor:
        """Scores z C^T; frozen prototypes take no gradient."""
        C, frozen = self.net.prototypes.weight, self._now < self._settings.freeze_steps
        return z @ (C.detach() if frozen else C).T

    def _codes(self, scores: Tensor, view: int) -> Tensor:
        """Codes of a view; a full queue adds the scores of earlier features."""
        queue, N, options = self.queue[view], len(scores), self._settings
        if queue.full:
            C = self.net.prototypes.weight.detach()
            scores = torch.cat([scores, queue.rows @ C.T])  # (N + Q, K)
        return sinkhorn(scores, options.epsilon, options.sinkhorn_iterations)[:N]

    @torch.no_grad()
    def _normalise_prototypes(self) -> None:
        weight = self.net.prototypes.weight
        weight.copy_(normalise(weight))


def learner(net: Any, **options: Any) -> Swav:
    """SwAV with empty queues."""
    return Swav(net, Settings(**options))
