"""Alignment term: a client represents public images like a common alignment model.

Zhang et al., "Federated Unsupervised Representation Learning", FedCA, Eq. 11-14.

    h_u, z_u            h and z of public images by the client's net
    h_align, z_align    h and z of these images by the alignment model

No row is normalised.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from furlkit.terms.proximal import squared_distance

REDUCTIONS = ("sum", "mean")


def alignment_loss(
    h_u: Tensor, z_u: Tensor, h_align: Tensor, z_align: Tensor, reduction: str = "sum"
) -> Tensor:
    """FedCA Eq. 13: L_align = L_z + L_h, each over the n images of the batch:

    sum    Eq. 11-12 in print:  sum_i ||h_align^i - h_u^i||^2
    mean   the sum over n, independent of the batch size
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: expected one of {REDUCTIONS}")
    total = squared_distance(z_u, z_align) + squared_distance(h_u, h_align)
    return total / len(h_u) if reduction == "mean" else total


@contextmanager
def eval_mode(net: nn.Module) -> Iterator[None]:
    """Eval mode for public images: BatchNorm's statistics describe private images."""
    # Restore modes one by one: frozen parts were in eval mode before.
    training = [module for module in net.modules() if module.training]
    net.eval()
    yield
    for module in training:
        module.training = True


def forward_eval(net, images: Tensor) -> tuple[Tensor, Tensor]:
    """h and z of public images in eval mode, with gradients.

    The alignment model computed its targets in eval mode, so only eval mode gives a
    term of 0 at its weights.
    """
    with eval_mode(net):
        h = net.encoder(images)
        z = net.projector(h)
    # Squared differences need more digits than mixed precision has.
    with torch.autocast(h.device.type, enabled=False):
        return h.float(), z.float()


class Alignment:
    """FedCA Eq. 14, second summand: beta L_align on a batch of public images."""

    def __init__(self, net, given, beta: float, reduction: str, size: int) -> None:
        self._net, self._given, self._size = net, given, size
        self._beta, self._reduction = beta, reduction

    def batch_at(self, step: int) -> Any:
        """Public images of a step; the loop gathers mapped images one step ahead."""
        return self._given["public"](step, self._size)

    def __call__(self, batch, forward) -> Tensor:
        public = self.batch_at(batch.step)
        h, z = forward_eval(self._net, public.plain())
        rows, given = public.index, self._given
        h_align, z_align = given["h_align"][rows], given["z_align"][rows]
        with torch.autocast(h.device.type, enabled=False):
            loss = alignment_loss(h, z, h_align, z_align, self._reduction)
            return self._beta * loss


def alignment(
    net, given, *, beta: float, align_reduction: str, align_batch_size: int
) -> Alignment | None:
    """The term with these options, or None if its weight is 0."""
    if not beta:
        return None
    return Alignment(net, given, beta, align_reduction, align_batch_size)
