"""Instance discrimination: every image is a class, represented by a row of a bank.

Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
CVPR 2018, Eq. 2-3; one of FedUSC's pretext tasks.

    v         unit projections of one view of each image of a batch          (N, d)
    bank      a unit row for each of the client's n images                   (n, d)
    tau, m    temperature; share of the old row kept in an update

The paper has 1.3 million images and estimates the sum over all images by
noise-contrastive estimation (section 3.2). A client has few images, so the sum is exact
and needs neither a number of negatives nor a normalising constant.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from furlkit.objectives.learner import Forward
from furlkit.objectives.simclr import normalise


def instance_loss(v: Tensor, bank: Tensor, index: Tensor, tau: float) -> Tensor:
    """Wu et al. Eq. 2-3: for unit rows the mean over n of

        -log exp(bank_i . v_n / tau) / sum_j exp(bank_j . v_n / tau)     i = index_n

    The bank takes no gradient.
    """
    return F.cross_entropy(v @ bank.T / tau, index)


def first_bank(kept: Tensor, rng: torch.Generator) -> Tensor:
    """Stored rows of a client, (n, d); rows of zeros become random unit rows."""
    drawn = normalise(torch.randn(kept.shape, generator=rng)).to(kept.device)
    return torch.where(kept.any(dim=1, keepdim=True), kept, drawn)


class Instance(nn.Module):
    """The net and the bank, (n, d), created by `begin_epoch`."""

    net: Any
    bank: Tensor
    _written: tuple[Tensor, Tensor]  # Images and rows of the current step.

    def __init__(self, net: Any, tau: float, m: float, kept: Tensor | None):
        super().__init__()
        self.net, self._tau, self._m, self._kept = net, tau, m, kept

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """Start with the client's stored bank, or with a random bank."""
        if epoch == 0:
            *_, last = self.net.projector.parameters()
            new = torch.zeros(len(images), len(last), device=last.device)
            kept = new if self._kept is None else self._kept
            self.register_buffer("bank", first_bank(kept, rng))

    def step(self, batch) -> Forward:
        """Compare one view of each image with the whole bank."""
        x = batch.one_view()  # (N, C, S, S)
        h = self.net.encoder(x)
        z = self.net.projector(h)  # (N, d)
        with torch.autocast(z.device.type, enabled=False):
            v = normalise(z.float())
            loss = instance_loss(v, self.bank, batch.index, self._tau)
        self._written = batch.index, v.detach()
        return Forward({"instance": loss}, x, h, z)

    def after_step(self) -> None:
        """bank_i <- m bank_i + (1 - m) v, normalised (the authors' code)."""
        index, v = self._written
        self.bank[index] = normalise(self._m * self.bank[index] + (1 - self._m) * v)


def learner(
    net: Any, *, temperature: float, bank_momentum: float, bank: Tensor | None = None
) -> Instance:
    """`bank`: the client's stored rows, with zeros for new images."""
    return Instance(net, temperature, bank_momentum, bank)
