"""Sobel's filter: the strength of an image's edges, a style common to all clients."""

import torch.nn.functional as F
from torch import Tensor

FLAT = 1e-6  # A smaller range of edges is rounding.


def sobel(images: Tensor) -> Tensor:
    """Edges of float images (B, C, H, W) in [0, 1]: the same shape, in [0, 1] again.

    Of the grey image (the mean of the channels), for each image scaled to 0 ... 1:

        m = sqrt(g_x^2 + g_y^2)        g_x = [1 2 1]^T * [-1 0 1], g_y its transpose

    An image without an edge is 0 everywhere. Pixels at the border are repeated outwards,
    so the border is not an edge.
    """
    grey = F.pad(images.mean(dim=1, keepdim=True), (1, 1, 1, 1), mode="replicate")
    # Differences first: those of equal pixels are exactly 0, however sums are rounded.
    across = grey[..., 2:] - grey[..., :-2]  # (B, 1, H + 2, W)
    down = grey[..., 2:, :] - grey[..., :-2, :]  # (B, 1, H, W + 2)
    g_x = across[..., :-2, :] + 2 * across[..., 1:-1, :] + across[..., 2:, :]
    g_y = down[..., :-2] + 2 * down[..., 1:-1] + down[..., 2:]
    m = (g_x.square() + g_y.square()).sqrt()  # (B, 1, H, W)
    low = m.amin(dim=(2, 3), keepdim=True)
    high = m.amax(dim=(2, 3), keepdim=True)
    return ((m - low) / (high - low).clamp_min(FLAT)).expand_as(images)
