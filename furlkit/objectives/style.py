"""Style loss of FedStyle: a client's images and their Sobel images are two styles.

"More Generalized and Personalized Unsupervised Representation Learning In A Distributed
System", FedStyle, Eq. 2.

    z      projections of B images, then of their Sobel images                  (2B, d)
    s      the style of each row, 0 or 1                                        (2B)
    P(i)   the positives: the other rows with the style of row i
    tau    temperature

Sobel images look alike at every client, so the client's style distinguishes images from
Sobel images. The paper prints the projector's z; `normalise` converts z to unit rows.
"""

import torch
from torch import Tensor

from furlkit.objectives.learner import Forward
from furlkit.objectives.simclr import normalise, same_view_logits

REDUCTIONS = ("mean", "paper")


def style_loss(z: Tensor, s: Tensor, tau: float, reduction: str = "mean") -> Tensor:
    """FedStyle Eq. 2, supervised InfoNCE: for rows i and their positives j

    l_ij = -log exp(z_i.z_j / tau) / sum_{n != i} exp(z_i.z_n / tau)

    mean    the mean over rows i of 1 / |P(i)| sum_j l_ij
    paper   the printed version: the sum over rows i of 1 / (2B - 1) sum_j l_ij
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: expected one of {REDUCTIONS}")
    log_p = (same_view_logits(z) / tau).log_softmax(dim=1)  # (2B, 2B)
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    positive = (s[:, None] == s) & others  # (2B, 2B)
    # The diagonal of log_p is -inf, and -inf times a weight of 0 is NaN.
    each = -log_p.masked_fill(~positive, 0).sum(dim=1)  # (2B,)
    if reduction == "paper":
        return (each / (len(z) - 1)).sum()
    return (each / positive.sum(dim=1).clamp_min(1)).mean()


def step(
    net, batch, *, temperature: float, reduction: str, normalised: bool = True
) -> Forward:
    """Encode images and Sobel images in one forward pass, without augmentation."""
    x = torch.cat([batch.plain(), batch.edges()])  # (2B, C, S, S)
    h = net.encoder(x)
    z = net.projector(h)  # (2B, d)
    s = torch.arange(2, device=z.device).repeat_interleave(len(batch.index))  # (2B,)
    with torch.autocast(z.device.type, enabled=False):
        rows = normalise(z.float()) if normalised else z.float()
        loss = style_loss(rows, s, temperature, reduction)
    return Forward({"style": loss}, x, h, z)
