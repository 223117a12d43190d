"""The alignment term: a client's net answers to public images as one common net does.

Zhang et al., "Federated Unsupervised Representation Learning", FedCA, Eq. 11-13.

    h_u, z_u            what the client's encoder and projector make of public images
    h_align, z_align    what the alignment model makes of the same images

Neither is normalised.
"""

import torch
from torch import Tensor

REDUCTIONS = ("sum", "mean")


def alignment_loss(
    h_u: Tensor, z_u: Tensor, h_align: Tensor, z_align: Tensor, reduction: str = "sum"
) -> Tensor:
    """FedCA Eq. 13: L_align = L_z + L_h, each over the n images of the batch:

    sum    Eq. 11-12 as printed:  sum_i ||h_align^i - h_u^i||^2
    mean   the same over n, which does not grow with the batch
    """
    if reduction not in REDUCTIONS:
        raise ValueError(f"reduction {reduction!r}: wanted one of {REDUCTIONS}")
    total = _squared_distance(z_align, z_u) + _squared_distance(h_align, h_u)
    return total / len(h_u) if reduction == "mean" else total


def _squared_distance(a: Tensor, b: Tensor) -> Tensor:
    if a.shape != b.shape:
        raise ValueError(f"{tuple(a.shape)} and {tuple(b.shape)}: not the same images")
    return (a.detach() - b).square().sum()


def answers(net, images: Tensor) -> tuple[Tensor, Tensor]:
    """h and z of public images in eval mode, with gradients.

    The targets were made in eval mode, so only there is the term 0 at the alignment
    model's own weights; BatchNorm's running statistics stay those of private images.
    """
    training = net.training
    net.eval()
    h = net.encoder(images)
    z = net.projector(h)
    net.train(training)
    # Squares of differences need more digits than mixed precision gives products.
    with torch.autocast(h.device.type, enabled=False):
        return h.float(), z.float()
