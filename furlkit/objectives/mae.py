"""MAE: the pixels of hidden patches are predicted from the visible patches.

He et al., "Masked Autoencoders Are Scalable Vision Learners", CVPR 2022.
Fed-MAE: Yan et al., "Label-Efficient Self-Supervised Federated Learning for Tackling Data
Heterogeneity in Medical Imaging", IEEE TMI 2023: MAE at every client, encoder and decoder
averaged by the number of images.

    t     pixels of the M hidden patches of an image                        (B, M, p p C)
    y     pixels predicted by the decoder, the head `patches`
    r     share of hidden patches (--mask-ratio)

    loss = mean over images, hidden patches and pixels of (y - t)^2

With normalised pixels each patch of t has mean 0 and deviation 1. An image is one
augmented view; patches are drawn anew for each image and step. The text of both papers
was not at hand; the form follows the authors' code.

For a Vision Transformer of timm the encoder reads visible patches only, like MAE. Its
positions are trained, and fixed sines in MAE; the decoder's are fixed sines.

For a network without attention (cnn5, ResNets) hidden patches are set to zero, and the
decoder starts from h, a single row per image. SparK (Tian et al., ICLR 2023) hides
patches by sparse convolutions in every layer and decodes the maps of several layers.
Here zeros spread through convolutions, and BatchNorm's statistics describe images with
holes, although evaluation shows whole images: expect less than from SparK, and prefer a
smaller --mask-ratio.
"""

import torch
from torch import Generator, Tensor

from furlkit.objectives.learner import Forward

EPSILON = 1e-6  # Added to the variance of a patch.


def patchify(x: Tensor, p: int) -> Tensor:
    """Images (B, C, H, W) as patches (B, N, p p C), in rows from the top left."""
    B, C, H, W = x.shape
    rows, columns = H // p, W // p
    x = x[:, :, : rows * p, : columns * p].reshape(B, C, rows, p, columns, p)
    return x.permute(0, 2, 4, 3, 5, 1).reshape(B, rows * columns, p * p * C)


def normalised_patches(t: Tensor) -> Tensor:
    """Patches with mean 0 and variance 1, of the values within a patch."""
    return (t - t.mean(dim=-1, keepdim=True)) / (
        t.var(dim=-1, keepdim=True) + EPSILON
    ).sqrt()


def mae_loss(y: Tensor, t: Tensor, normalise: bool) -> Tensor:
    """Mean of (y - t)^2 over hidden patches and pixels; y and t are (B, M, p p C)."""
    return (y - (normalised_patches(t) if normalise else t)).square().mean()


def visible_count(N: int, r: float) -> int:
    """V, the number of visible patches: at least one visible and one hidden patch."""
    return min(max(int(N * (1 - r)), 1), N - 1)


def random_order(B: int, N: int, generator: Generator) -> Tensor:
    """A random order of the N patches for each image, (B, N), on the CPU."""
    return torch.rand(B, N, generator=generator).argsort(dim=1)


def step(net, batch, *, mask_ratio: float, normalise_pixels: bool) -> Forward:
    """Hide patches of one view; the order of patches travels with the view's draws."""
    decoder = net.patches
    order = random_order(len(batch.index_cpu), decoder.count, batch.generator)
    (x,), (order,) = batch.separate_views(None, also=[order])
    V = visible_count(decoder.count, mask_ratio)
    visible, hidden = order[:, :V], order[:, V:]
    h, y = decoder.reconstruct(net.encoder, x, visible, hidden)
    t = torch.take_along_dim(patchify(x, decoder.side), hidden[..., None], dim=1)
    with torch.autocast(x.device.type, enabled=False):
        loss = mae_loss(y.float(), t.float(), normalise_pixels)
    return Forward({"mae": loss}, x, h)
