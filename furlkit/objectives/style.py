"""The style loss of FedStyle: a client's images and their Sobel images, as two styles.

"More Generalized and Personalized Unsupervised Representation Learning In A Distributed
System", FedStyle, Eq. 2.

    z      projections of B images, then of their Sobel images                  (2B, d)
    s      the style of each row, 0 or 1                                        (2B)
    P(i)   the other rows of the style of row i, the positives
    tau    temperature

Sobel images look alike at every client, so that what tells the two apart is the client's
own style. The paper prints z as the projector gives it; `normalise` makes unit rows of it.
"""

import torch
from torch import Tensor

from furlkit.objectives.learner import Forward
from furlkit.objectives.simclr import normalise, same_view_logits

REDUCTIONS = ("mean", "paper")


def style_loss(z: Tensor, s: Tensor, tau: float, reduction: str = "mean") -> Tensor:
    """FedStyle Eq. 2, supervised InfoNCE: of rows i and the positives j of each

    l_ij = -log exp(z_i.z_j / tau) / sum_{n != i} exp(z_i.z_n / tau)

    mean    the mean over rows i of 1 / |P(i)| sum_j l_ij
    paper   as printed: the sum over rows i of 1 / (2B - 1) sum_j l_ij
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: expected one of {REDUCTIONS}")
    log_p = (same_view_logits(z) / tau).log_softmax(dim=1)  # (2B, 2B)
    others = ~torch.eye(len(z), dtype=torch.bool, device=z.device)
    positive = (s[:, None] == s) & others  # (2B, 2B)
    # On the diagonal log_p is -inf, which no weight of 0 would take out.
    each = -log_p.masked_fill(~positive, 0).sum(dim=1)  # (2B,)
    if reduction == "paper":
        return (each / (len(z) - 1)).sum()
    return (each / positive.sum(dim=1).clamp_min(1)).mean()


def step(
    net, batch, *, temperature: float, reduction: str, normalised: bool = True
) -> Forward:
    """Images and Sobel images in one forward pass, neither of them augmented."""
    x = torch.cat([batch.plain(), batch.edges()])  # (2B, C, S, S)
    h = net.encoder(x)
    z = net.projector(h)  # (2B, d)
    s = torch.arange(2, device=z.device).repeat_interleave(len(batch.index))  # (2B,)
    with torch.autocast(z.device.type, enabled=False):
        rows = normalise(z.float()) if normalised else z.float()
        loss = style_loss(rows, s, temperature, reduction)
    return Forward({"style": loss}, x, h, z)
