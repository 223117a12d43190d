"""NNCLR: each view predicts the nearest neighbour of the second view in a queue.

Dwibedi et al., "With a Little Help from My Friends: Nearest-Neighbor Contrastive
Learning of Visual Representations", ICCV 2021.

    z_1, z_2    projections of two views of N images, rows in one order          (N, d)
    p_1, p_2    predictions, p = predictor(z)                                    (N, d)
    Q           the support set: unit projections of first views of earlier batches
    nn          the nearest rows of Q to z, without gradient                     (N, d)
    tau         temperature

The paper fills Q with random rows at first. Here Q starts empty, and the first batch is
compared with itself. The paper was not at hand in full; the equations follow quotations
and public code (solo-learn, lightly).
"""

from typing import Any

import torch
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.queue import Queue
from furlkit.objectives.simclr import normalise, nt_xent


@torch.no_grad()
def nearest(z: Tensor, Q: Tensor) -> Tensor:
    """Nearest rows for unit rows: argmin_{q in Q} ||z - q||; z itself if Q is empty."""
    if len(Q) == 0:
        return z.detach()
    return Q[(z @ Q.T).argmax(dim=1)]  # (N, d)


def nnclr_loss(nn_1: Tensor, p_2: Tensor, tau: float, form: str) -> Tensor:
    """NNCLR's loss for neighbours of one view and predictions of the second view.

    oneway     the neighbour finds the prediction of the image (solo-learn)
    symmetric  mean of oneway and the reverse: the prediction finds the neighbour (paper)
    full       like SimCLR: neighbours repel neighbours, and predictions repel
               predictions (lightly)
    """
    return nt_xent(nn_1, p_2, tau, form)


class Nnclr(nn.Module):
    """The net and the queue of projections."""

    net: Any
    _z: Tensor  # Unit projections of the first views of the current step.

    def __init__(self, net: Any, queue: Queue, tau: float, form: str):
        super().__init__()
        self.net, self.queue, self._tau, self._form = net, queue, tau, form

    def step(self, batch) -> Forward:
        """Encode both views in one forward pass; look up neighbours of both views."""
        x = batch.two_views()  # (2N, C, S, S)
        h = self.net.encoder(x)
        z = self.net.projector(h)  # (2N, d)
        p = self.net.predictor(z)  # (2N, d)
        with torch.autocast(z.device.type, enabled=False):
            unit = normalise(z.detach().float())
            nn_1, nn_2 = nearest(unit, self.queue.filled).chunk(2)
            p_1, p_2 = p.float().chunk(2)
            how = self._tau, self._form
            loss = (nnclr_loss(nn_1, p_2, *how) + nnclr_loss(nn_2, p_1, *how)) / 2
        self._z = unit.chunk(2)[0]
        return Forward({"nnclr": loss}, x, h, z)

    def after_step(self) -> None:
        """Add the first views to the queue."""
        self.queue.add(self._z)


def learner(net: Any, *, temperature: float, form: str, queue: int) -> Nnclr:
    """NNCLR with an empty queue."""
    *_, last = net.projector.parameters()  # The bias, or weights, of the last layer.
    return Nnclr(net, Queue(queue, len(last), last.device), temperature, form)
