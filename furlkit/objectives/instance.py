"""Instance discrimination: every image is a class of its own, known by a row in a bank.

Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
CVPR 2018, Eq. 2-3; one of FedUSC's pretext tasks.

    v         unit projections of one view of each image of a batch          (N, d)
    bank      a unit row for each of the client's n images                   (n, d)
    tau, m    temperature; how much of its row stays when an image is met

The paper estimates the sum over all images by noise-contrastive estimation (Eq. 4-8), as
it has 1.3 million of them. A client has few enough for the sum itself, which is exact and
needs neither a number of negatives nor a normalising constant.
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
    """The rows that a client kept, random unit rows where it has none (0); (n, d)."""
    drawn = normalise(torch.randn(kept.shape, generator=rng)).to(kept.device)
    return torch.where(kept.any(dim=1, keepdim=True), kept, drawn)


class Instance(nn.Module):
    """The net and the bank, which `begin_epoch` makes: its length is the client's."""

    net: Any
    bank: Tensor
    _written: tuple[Tensor, Tensor]  # Images of the step under way, and their rows.

    def __init__(self, net: Any, tau: float, m: float, kept: Tensor | None):
        super().__init__()
        self.net, self._tau, self._m, self._kept = net, tau, m, kept

    def begin_epoch(self, images: Any, epoch: int, rng: torch.Generator) -> None:
        """The bank is that of the client's last round, or else random."""
        if epoch == 0:
            *_, last = self.net.projector.parameters()
            new = torch.zeros(len(images), len(last), device=last.device)
            kept = new if self._kept is None else self._kept
            self.register_buffer("bank", first_bank(kept, rng))

    def step(self, batch) -> Forward:
        """One view of each image against the whole bank."""
        x = batch.one_view()  # (N, C, S, S)
        h = self.net.encoder(x)
        z = self.net.projector(h)  # (N, d)
        with torch.autocast(z.device.type, enabled=False):
            v = normalise(z.float())
            loss = instance_loss(v, self.bank, batch.index, self._tau)
        self._written = batch.index, v.detach()
        return Forward({"instance": loss}, x, h, z)

    def after_step(self) -> None:
        """bank_i <- m bank_i + (1 - m) v, as a unit row (the authors' code)."""
        index, v = self._written
        self.bank[index] = normalise(self._m * self.bank[index] + (1 - self._m) * v)


def learner(
    net: Any, *, temperature: float, bank_momentum: float, bank: Tensor | None = None
) -> Instance:
    """`bank` are the rows that the client kept, 0 where it has none."""
    return Instance(net, temperature, bank_momentum, bank)
