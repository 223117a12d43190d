"""SimSiam: each view predicts the projection of the second view, without its gradient.

Chen and He, "Exploring Simple Siamese Representation Learning", CVPR 2021, Eq. 1-4.

    z_1, z_2    projections of two views of N images, rows in one order
    p_1, p_2    predictions, p = predictor(z)
"""

import torch
from torch import Tensor

from furlkit.objectives.learner import Forward, Through, repeatable
from furlkit.objectives.simclr import normalise


def negative_cosine(p: Tensor, z: Tensor) -> Tensor:
    """SimSiam Eq. 1 with the stop-gradient of Eq. 3, the mean over N rows of

    D(p, stopgrad(z)) = - (p / ||p||) . (z / ||z||)
    """
    return -(normalise(p) * normalise(z.detach())).sum(dim=1).mean()


def simsiam_loss(p_1: Tensor, p_2: Tensor, z_1: Tensor, z_2: Tensor) -> Tensor:
    """SimSiam Eq. 4: D(p_1, stopgrad(z_2)) / 2 + D(p_2, stopgrad(z_1)) / 2."""
    return (negative_cosine(p_1, z_2) + negative_cosine(p_2, z_1)) / 2


def step(net, batch) -> Forward:
    """Encode both views in one forward pass; z shows a collapse."""
    x = batch.two_views()  # (2N, C, S, S)

    def forward(h: Tensor, through: Through) -> Forward:
        z = through(net.projector, h)  # (2N, d)
        p = through(net.predictor, z)  # (2N, d)
        with torch.autocast(z.device.type, enabled=False):
            loss = simsiam_loss(*p.float().chunk(2), *z.float().chunk(2))
        return Forward({"simsiam": loss}, x, h, z)

    return repeatable(forward, net.encoder(x))
