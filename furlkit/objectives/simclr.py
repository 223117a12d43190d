"""NT-Xent, the contrastive loss of SimCLR, and the pieces extended by later methods.

Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations",
ICML 2020, Eq. 1; Zhang et al., "Federated Unsupervised Representation Learning", FedCA,
Eq. 3 (over both views) and Eq. 4-8 (one view against the other).

    z_1, z_2    projections of two views of N images, rows in one order
    z_dict      further negatives, common to all images: FedCA's dictionary
    z_own       a fixed row for each of the N images, computed by an earlier model
    tau         temperature
    N, K, d     images in the batch, rows of the dictionary, length of z

Every form is cross-entropy over rows of cosines, with the positive in column n of row
n. Methods with more negatives (a dictionary, a queue) append columns.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.objectives.learner import Forward, Through, repeatable

FORMS = ("oneway", "symmetric", "full")


def nt_xent(
    z_1: Tensor,
    z_2: Tensor,
    tau: float,
    form: str = "oneway",
    z_dict: Tensor | None = None,
    z_own: Tensor | None = None,
    remote_only: bool = False,
) -> Tensor:
    """NT-Xent of two batches of projections, normalised here.

    oneway     FedCA Eq. 4-8: rows of z_1 against all rows of z_2, and of z_dict
    symmetric  mean of oneway(z_1, z_2) and oneway(z_2, z_1)
    full       FedCA Eq. 3, SimCLR Eq. 1: each of 2N views against the 2N - 1 others

    A dictionary, (K, d), is normalised too and adds K columns to every row of every
    form (FedCA Eq. 5-6); it takes no gradient. With `z_own`, (N, d), the dictionary
    gets a separate loss, which is added: `own_row_loss`, 0 for K = 0. With
    `remote_only` the only negatives are the dictionary, in every form (FCL Eq. 5).
    """
    if form not in FORMS:
        raise ValueError(f"form {form!r}: expected one of {', '.join(FORMS)}")
    z_1, z_2 = normalise(z_1), normalise(z_2)
    if z_dict is not None and (z_own is not None or remote_only):
        apart = own_row_loss(z_1, z_2, z_dict, z_own, tau)
        if form != "oneway":
            apart = (apart + own_row_loss(z_2, z_1, z_dict, z_own, tau)) / 2
        return apart if remote_only else nt_xent(z_1, z_2, tau, form) + apart
    logits_1 = oneway_logits(z_1, z_2)  # (N, N)
    logits_2 = logits_1.T
    if form == "full":
        logits_1 = torch.cat([logits_1, same_view_logits(z_1)], dim=1)  # (N, 2N)
        logits_2 = torch.cat([logits_2, same_view_logits(z_2)], dim=1)  # (N, 2N)
    if z_dict is not None:
        logits_1 = torch.cat([logits_1, dictionary_logits(z_1, z_dict)], dim=1)
    if form == "oneway":
        return contrastive_loss(logits_1, tau)
    if z_dict is not None:
        logits_2 = torch.cat([logits_2, dictionary_logits(z_2, z_dict)], dim=1)
    return (contrastive_loss(logits_1, tau) + contrastive_loss(logits_2, tau)) / 2


def normalise(z: Tensor) -> Tensor:
    """Rows of unit length: z_n / ||z_n||."""
    return F.normalize(z, dim=1)


def oneway_logits(z_i: Tensor, z_j: Tensor) -> Tensor:
    """FedCA Eq. 4: z_i z_j^T for unit rows; the positives are on the diagonal."""
    return z_i @ z_j.T  # (N, N)


def same_view_logits(z: Tensor) -> Tensor:
    """Products z z^T of unit rows, with -inf on the diagonal."""
    itself = torch.eye(len(z), dtype=torch.bool, device=z.device)
    return (z @ z.T).masked_fill(itself, float("-inf"))  # (N, N)


def dictionary_logits(z_i: Tensor, z_dict: Tensor) -> Tensor:
    """FedCA Eq. 5: z_i z_dict^T for unit rows z_i; every column is a negative."""
    return z_i @ normalise(z_dict.detach()).T  # (N, K)


def own_row_loss(
    z_i: Tensor, z_j: Tensor, z_dict: Tensor, z_own: Tensor | None, tau: float
) -> Tensor:
    """Ours, not FedCA's: MoCo's loss on the dictionary, with the row z_own for the key.

    For unit rows, with the positive in the first column and K negatives:

        logits = concat([z_i . z_own, z_i z_dict^T])        CE(logits / tau, 0)

    FedCA instead concatenates Eq. 4 and 5: view j is also the positive against the
    dictionary. View j moves with view i, and both can move away from the dictionary at
    no cost; a fixed row prevents the drift. z_own takes no gradient. If a row of z_own
    is zero (unknown), or z_own is None, the key is view j.
    """
    key = z_j
    if z_own is not None:
        known = z_own.any(dim=1, keepdim=True)  # (N, 1)
        key = torch.where(known, normalise(z_own.detach()), z_j)
    own = (z_i * key).sum(dim=1, keepdim=True)  # (N, 1)
    logits = torch.cat([own, dictionary_logits(z_i, z_dict)], dim=1)  # (N, 1 + K)
    first = torch.zeros(len(z_i), dtype=torch.long, device=z_i.device)
    return F.cross_entropy(logits / tau, first)


def contrastive_loss(logits: Tensor, tau: float) -> Tensor:
    """FedCA Eq. 7-8: CE(logits / tau, [0, ..., N - 1]) for logits (N, N + any)."""
    labels = torch.arange(len(logits), device=logits.device)
    return F.cross_entropy(logits / tau, labels)


def step(
    net,
    batch,
    temperature: float,
    form: str,
    z_dict: Tensor | None = None,
    z_own: Tensor | None = None,
    remote_only: bool = False,
) -> Forward:
    """NT-Xent of both views, encoded in one pass; `z_own` has a row per image."""
    x = batch.two_views()  # (2N, C, S, S)
    own = None if z_own is None else z_own[batch.index]

    def forward(h: Tensor, through: Through) -> Forward:
        z = through(net.projector, h)  # (2N, d)
        # Cosines over a small tau need more digits than mixed precision has.
        with torch.autocast(z.device.type, enabled=False):
            z_1, z_2 = z.float().chunk(2)
            loss = nt_xent(z_1, z_2, temperature, form, z_dict, own, remote_only)
            rows = z_1[:0] if z_dict is None else normalise(z_dict)
        return Forward({"simclr": loss}, x, h, z, rows.detach())

    return repeatable(forward, net.encoder(x))
