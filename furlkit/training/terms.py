"""Terms that are added to any objective: a term makes of a batch a loss."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from furlkit.data.batches import Batch, Images
from furlkit.models.architecture import Net
from furlkit.terms.alignment import alignment_loss, answers
from furlkit.terms.proximal import proximal_term
from furlkit.training.loop import LossOf, Purpose, positions

Term = Callable[[Batch], Tensor]


def with_terms(step: LossOf, terms: dict[str, Term]) -> LossOf:
    """An objective's step, and the terms that are added to its losses."""

    def loss_of(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        losses, z = step(batch)
        return {**losses, **{name: term(batch) for name, term in terms.items()}}, z

    return loss_of


def proximal(net: Net, mu: float) -> Term:
    """FedProx: the weights stay near those the net has now."""
    w_g = [p.detach().clone() for p in net.parameters()]
    return lambda batch: proximal_term(list(net.parameters()), w_g, mu)


@dataclass(frozen=True)
class PublicImages:
    """The alignment set on the device, and what the alignment model makes of it."""

    images: Images
    h: Tensor
    z: Tensor


def alignment(
    net: Net,
    public: PublicImages,
    beta: float,
    reduction: str,
    batch_size: int,
    purpose: Purpose,
) -> Term:
    """FedCA Eq. 14, second summand: beta L_align on the next batch of public images.

    The batches go through the set in a random order (what does not fill a batch is left
    out), then in another.
    """

    def term(batch: Batch) -> Tensor:
        index = positions(public.images, batch_size, purpose, batch.step)
        chosen = public.images.batch(index, batch.generator, batch.step)
        h, z = answers(net, chosen.plain())
        rows = index.to(h.device)
        with torch.autocast(h.device.type, enabled=False):
            loss = alignment_loss(h, z, public.h[rows], public.z[rows], reduction)
        return beta * loss

    return term
