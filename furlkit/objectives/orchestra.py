"""Orchestra: views of an image belong to the same global clusters.

Lubana et al., "Orchestra: Unsupervised Federated Learning via Globally Consistent
Clustering", ICML 2022. The paper was not at hand: the equations follow descriptions of
the authors' program.

    z_1         unit projections of the first views by the net                (N, d)
    z'_2        unit projections of the second views by a slow copy           (N, d)
    mu          global centroids, unit rows                                   (K, d)
    tau         temperature of the assignment to clusters
    turns       quarter turns of the first views, which a head predicts

The prediction of turns prevents a collapse. Before the first global clustering the
prediction of turns is the whole loss.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.momentum import Target
from furlkit.objectives.rotation import rotation_loss


def log_assignments(z: Tensor, mu: Tensor, tau: float) -> Tensor:
    """log softmax(cos(z_i, mu_k) / tau) over the clusters, (N, K)."""
    cosines = F.normalize(z, dim=1) @ F.normalize(mu, dim=1).T
    return F.log_softmax(cosines / tau, dim=1)


def assignment_loss(z: Tensor, z_target: Tensor, mu: Tensor, tau: float) -> Tensor:
    """Mean cross-entropy of the net's assignments with the copy's assignments:

    - 1/N sum_i sum_k p'_ik log p_ik
    """
    p = log_assignments(z_target, mu, tau).exp().detach()
    return -(p * log_assignments(z, mu, tau)).sum(dim=1).mean()


def turned(x: Tensor) -> tuple[Tensor, Tensor]:
    """Image i of a batch by i mod 4 quarter turns; the batch has a random order."""
    turns = torch.arange(len(x), device=x.device) % 4
    rotated = torch.empty_like(x)
    for k in range(4):
        rotated[k::4] = torch.rot90(x[k::4], k, (2, 3))
    return rotated, turns


class Orchestra(nn.Module):
    """The net, and its slow copy; the centroids are constant within a round."""

    net: Any

    def __init__(
        self,
        net: nn.Module,
        *,
        temperature: float,
        ema: float,
        rotation_weight: float,
        centroids: Tensor | None = None,
    ):
        super().__init__()
        self.net, self.target = net, Target(net)
        self._tau, self._ema, self._weight = temperature, ema, rotation_weight
        self._mu = centroids

    def step(self, batch) -> Forward:
        """Assign both views to clusters, and predict the turns of the first views."""
        x = batch.two_views()  # (2N, C, S, S)
        x_1, x_2 = x.chunk(2)
        h = self.net.encoder(x_1)
        z = self.net.projector(h)  # (N, d)
        rotated, turns = turned(x_1)
        logits = self.net.rotation(self.net.encoder(rotated))  # (N, 4)
        losses = {"turns": self._weight * rotation_loss(logits.float(), turns)}
        if self._mu is not None:
            z_target = self.target(x_2).float()
            with torch.autocast(z.device.type, enabled=False):
                loss = assignment_loss(z.float(), z_target, self._mu, self._tau)
            losses["orchestra"] = loss
        return Forward(losses, x_1, h, z)

    def after_step(self) -> None:
        """Move the copy towards the net."""
        self.target.follow(self.net, self._ema)


def learner(net: nn.Module, **options: Any) -> Orchestra:
    """Orchestra with a copy of the net."""
    return Orchestra(net, **options)
