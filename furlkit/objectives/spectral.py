"""Spectral contrastive loss, and FedSC's contrast with the images of other clients.

HaoChen et al., "Provable Guarantees for Self-Supervised Deep Learning with Spectral
Contrastive Loss", NeurIPS 2021; Jing et al., "FedSC: Provable Federated Self-supervised
Learning with Spectral Contrastive Objective over Non-i.i.d. Data", ICML 2024.

    z_1, z_2    projections of two views of N images, at most sqrt(mu) long       (N, d)
    R           correlations of the client's batch, Z^T Z / 2N, Z = [z_1; z_2]    (d, d)
    R_others    mean correlations of the other clients' images                    (d, d)
    alpha       weight of the contrast within the client

Negatives are all pairs, as in FedSC's program; HaoChen et al.'s code leaves out the pairs
of an image with itself. The sum over all pairs of negatives, E (z^T z')^2, equals
||E z z^T||^2, so a matrix of d x d numbers replaces the other clients' images. FedSC's
paper was not at hand: the equations follow the authors' program.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward, Through, repeatable


def bounded(z: Tensor, mu: float) -> Tensor:
    """Rows longer than sqrt(mu) are shortened to sqrt(mu)."""
    length = torch.linalg.vector_norm(z, dim=1, keepdim=True)
    return torch.where(length < mu**0.5, z, F.normalize(z, dim=1) * mu**0.5)


def correlations(z: Tensor) -> Tensor:
    """R = z^T z / n of rows z (n, d)."""
    return z.T @ z / len(z)


def spectral_loss(
    z_1: Tensor, z_2: Tensor, R_others: Tensor | None = None, alpha: float = 1.0
) -> Tensor:
    """Spectral contrastive loss; with R_others, FedSC's local objective:

    -2 mean_i z_1i . z_2i + alpha ||R||^2 + 2 (1 - alpha) tr(R R_others)
    """
    attraction = -2 * (z_1 * z_2).sum(dim=1).mean()
    R = correlations(torch.cat([z_1, z_2]))  # (d, d)
    if R_others is None:
        return attraction + R.square().sum()
    between = (R * R_others).sum()  # The trace of a product of symmetric matrices.
    return attraction + alpha * R.square().sum() + 2 * (1 - alpha) * between


def step(
    net,
    batch,
    *,
    norm_bound: float,
    intra_weight: float,
    R_others: Tensor | None = None,
) -> Forward:
    """Encode both views in one forward pass; mu = `norm_bound`, alpha = `intra_weight`."""
    x = batch.two_views()  # (2N, C, S, S)

    def forward(h: Tensor, through: Through) -> Forward:
        z = through(net.projector, h)  # (2N, d)
        with torch.autocast(z.device.type, enabled=False):
            z_1, z_2 = bounded(z.float(), norm_bound).chunk(2)
            loss = spectral_loss(z_1, z_2, R_others, intra_weight)
        return Forward({"spectral": loss}, x, h, z)

    return repeatable(forward, net.encoder(x))
