"""Blur, solarisation and cutout of float images (n, C, H, W) in [0, 1], in place."""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from furlkit.data.augment.arrange import Array, per_image, uniform


def blur_taps(size: int) -> int:
    """Kernel size of SimCLR's blur: a tenth of the image's side, odd, at least 3."""
    return max(3, size // 10 | 1)


def draw_sigmas(n: int, sigma: tuple[float, float], generator: Generator) -> Array:
    """(n,) standard deviations in pixels, uniform in the range."""
    return sigma[0] + (sigma[1] - sigma[0]) * uniform(generator, n)


def blur_(images: Tensor, sigmas: Tensor, taps: int) -> Tensor:
    """Gaussian blur with one sigma per image, with reflection at the edges.

    A weighted sum of shifted images, vertically and then horizontally. With few taps
    (small images) this is as fast as a grouped convolution, and it is linear in the
    taps for large images.
    """
    half = taps // 2
    weights = gaussian(sigmas.to(images.dtype), half)
    padded = F.pad(images, (half, half, half, half), mode="reflect")  # (n, C, H', W')
    columns = images.new_empty(*images.shape[:3], padded.shape[3])
    _weigh(padded, weights, dim=2, out=columns)
    return _weigh(columns, weights, dim=3, out=images)


def gaussian(sigmas: Tensor, half: int) -> list[Tensor]:
    """Weights (n, 1, 1, 1) at distance 0, 1, ..., half; both sides sum to 1."""
    distance = torch.arange(half + 1, device=sigmas.device).view(-1, 1, 1, 1, 1)
    density = torch.exp(-0.5 * (distance / sigmas.view(-1, 1, 1, 1)) ** 2)
    return list(density / (2 * density.sum(dim=0) - 1))  # half + 1 of (n, 1, 1, 1)


def _weigh(padded: Tensor, weights: list[Tensor], dim: int, out: Tensor) -> Tensor:
    half, length = len(weights) - 1, out.shape[dim]
    torch.mul(padded.narrow(dim, half, length), weights[0], out=out)
    for i in range(1, half + 1):
        before = padded.narrow(dim, half - i, length)
        after = padded.narrow(dim, half + i, length)
        out.addcmul_(before + after, weights[i])
    return out


def solarise_(images: Tensor, thresholds: Tensor) -> Tensor:
    """Invert the values at or above the image's threshold.

    With a tolerance of 1e-6, multiples of 1/255 reach an equal threshold.
    """
    reached = images >= per_image(thresholds - 1e-6, images)
    return images.copy_(torch.where(reached, 1 - images, images))


def cutout_(images: Tensor, centres: Tensor, side: int) -> Tensor:
    """Set a square around each centre to 0, clipped to the image.

    centres: (n, 2) positions in the image, y and x in [0, 1).
    """
    _, _, height, width = images.shape
    y, x = centres.unbind(1)
    rows = _covered((y * height).floor(), side, height)  # (n, H)
    columns = _covered((x * width).floor(), side, width)  # (n, W)
    hole = rows.unsqueeze(2) & columns.unsqueeze(1)  # (n, H, W)
    return images.masked_fill_(hole.unsqueeze(1), 0)


def _covered(centre: Tensor, side: int, length: int) -> Tensor:
    start = (centre - side // 2).unsqueeze(1)  # (n, 1)
    pixel = torch.arange(length, device=centre.device)
    return (pixel >= start) & (pixel < start + side)  # (n, length)
