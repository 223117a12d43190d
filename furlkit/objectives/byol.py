"""BYOL: an online net predicts the projections of a slowly following target net.

Grill et al., "Bootstrap Your Own Latent", NeurIPS 2020, Eq. 1-2.

    p_1, p_2      predictions of the online net for the two views, p = predictor(z)
    z'_1, z'_2    projections of the two views by the target net, without gradient
    ema           share of the old target kept in each step
"""

from typing import Any

import torch
from torch import Tensor, nn

from furlkit.objectives.learner import Forward, Through, repeatable_with_target
from furlkit.objectives.momentum import Target
from furlkit.objectives.simsiam import negative_cosine


def byol_loss(p: Tensor, z_target: Tensor) -> Tensor:
    """BYOL Eq. 2, the mean over rows of || p / ||p|| - z' / ||z'|| ||^2 = 2 - 2 cos."""
    return 2 + 2 * negative_cosine(p, z_target)


class Byol(nn.Module):
    """The online net and its target; only the online net is trained."""

    net: Any

    def __init__(self, net: nn.Module, ema: float):
        super().__init__()
        self.net, self._ema = net, ema
        self.target = Target(net)

    def step(self, batch) -> Forward:
        """Predict from each view the target's projection of the second view."""
        x = batch.two_views()  # (2N, C, S, S)

        def forward(h: Tensor, h_target: Tensor, through: Through) -> Forward:
            z = through(self.net.projector, h)  # (2N, d)
            p = through(self.net.predictor, z)  # (2N, d)
            z_target = through(self.target.project, h_target)
            with torch.autocast(z.device.type, enabled=False):
                p_1, p_2 = p.float().chunk(2)
                z_1, z_2 = z_target.float().chunk(2)
                loss = byol_loss(p_1, z_2) + byol_loss(p_2, z_1)
            return Forward({"byol": loss}, x, h, z)

        h, h_target = self.net.encoder(x), self.target.encode(x)
        return repeatable_with_target(forward, h, h_target)

    def after_step(self) -> None:
        """BYOL Eq. 1: the target moves towards the online net."""
        self.target.follow(self.net, self._ema)


def learner(net: nn.Module, *, ema: float) -> Byol:
    """BYOL with a target initialised with the net's weights."""
    return Byol(net, ema)
