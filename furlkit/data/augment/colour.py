"""Colour operations on float images (n, C, H, W) in [0, 1], in place.

Each operation takes one parameter per image and equals torchvision's on float tensors.
Saturation, hue and grey do nothing to grey images, as in torchvision.
"""

from functools import cache, partial
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from furlkit.data.augment.arrange import Operations, per_image, uniform
from furlkit.data.transfer import constant

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
LUMA = (0.2989, 0.587, 0.114)
SMALLEST_CHROMA = 1e-12


class Blends(NamedTuple):
    """Pixels x -> clamp(keep x + y, 0, 1); y is luma x, or its mean if flat is 1."""

    keep: Tensor  # (..., n, 1, 1)
    luma: Tensor  # (..., n, 1, C)
    flat: Tensor  # (..., n, 1, 1)
    varied: Tensor  # (..., n, 1, 1): 1 - flat


def blends(kinds: Tensor, factors: Tensor, channels: int) -> Blends:
    """Brightness, contrast or saturation by kinds (..., n), with factors (..., n).

    The operations blend the image with black, the mean luma, or the luma. In this
    common form, images with different operations are processed in one call.
    """
    keep = factors[..., None, None]  # (..., n, 1, 1)
    kinds = kinds[..., None, None]
    luma = constant(LUMA if channels == 3 else (1.0,), keep)
    given = (1 - keep) * (kinds != BRIGHTNESS)
    flat = (kinds == CONTRAST).to(keep.dtype)
    return Blends(keep, given * luma, flat, 1 - flat)


def blend_(images: Tensor, blends: Blends) -> Tensor:
    """Apply one blend to each image."""
    n, channels, height, width = images.shape
    keep, luma, flat, varied = blends
    pixels = images.view(n, channels, height * width)
    y = torch.bmm(luma, pixels)  # (n, 1, H * W)
    shift = y.mean(dim=2, keepdim=True) * flat  # (n, 1, 1)
    y.mul_(varied).add_(shift)
    torch.addcmul(y, pixels, keep, out=pixels).clamp_(0, 1)
    return images


def grey_(images: Tensor) -> Tensor:
    """Set all channels to the luma."""
    if images.shape[1] == 1:
        return images
    r, g, b = images.split(1, dim=1)
    luma = (r * LUMA[0]).add_(g, alpha=LUMA[1]).add_(b, alpha=LUMA[2])  # (n, 1, H, W)
    return images.copy_(luma)


def hue_(images: Tensor, shifts: Tensor) -> Tensor:
    """Shift the hue by a fraction of the full circle, in [-0.5, 0.5].

    With V the largest channel, c the chroma V - smallest, and h in [0, 1) the hue:

        h = sign(g - b) (1/3 + (g + b - r - V) / 6c)  mod 1
        r = V + c - 6c (1/2 - clamp(|h - 1/2|, 1/6, 1/3))
        g = V + c - 6c clamp(|h - 1/3|, 1/6, 1/3)
        b = V + c - 6c clamp(|h - 2/3|, 1/6, 1/3)

    This is the conversion to HSV and back without its six cases, and so without masks.
    Memory bandwidth limits the speed, so results overwrite tensors no longer needed.
    """
    if images.shape[1] == 1:
        return images
    r, g, b = images.split(1, dim=1)  # (n, 1, H, W)
    v, c = torch.maximum(r, g), torch.minimum(r, g)
    torch.maximum(v, b, out=v)
    torch.sub(v, torch.minimum(c, b, out=c), out=c).clamp_min_(SMALLEST_CHROMA)
    h = (g - r).add_(b).sub_(v)
    torch.addcdiv(constant(1 / 3, h), h, c, value=1 / 6, out=h)
    away = g - b
    torch.copysign(h, away, out=h).add_(1 + per_image(shifts, images)).frac_()
    v.add_(c)
    for channel, centre in ((g, 1 / 3), (b, 2 / 3)):
        torch.sub(h, centre, out=away).abs_().clamp_(1 / 6, 1 / 3)
        torch.addcmul(v, away, c, value=-6, out=channel)
    h.sub_(1 / 2).abs_().clamp_(1 / 6, 1 / 3).sub_(1 / 2)
    torch.addcmul(v, h, c, value=6, out=r)
    return images


class Jitter(NamedTuple):
    """One jitter per image."""

    order: Tensor  # (n, 4): the 1st to 4th operation
    factors: Tensor  # (n, 4): of BRIGHTNESS, CONTRAST, SATURATION and HUE


def draw_jitter(
    n: int, strengths: tuple[float, float, float, float], generator: Generator
) -> Jitter:
    """Factors and order of a jitter, distributed as in torchvision's ColorJitter.

    strengths: of brightness, contrast, saturation (factors within 1 +- strength, at
    least 0) and hue (shifts within +- strength).
    """
    low, width = _factor_range(strengths)
    # Sorting uniform numbers gives a random permutation of the four operations.
    factors, order = uniform(generator, 2, n, 4)
    return Jitter(order.argsort(dim=1), factors.mul_(width).add_(low))


@cache
def _factor_range(strengths: tuple[float, ...]) -> tuple[Tensor, Tensor]:
    """Smallest factor and width of the range of factors, for each operation."""
    reach = torch.tensor(strengths)
    high = torch.tensor([1.0, 1.0, 1.0, 0.0]) + reach
    low = (high - 2 * reach).clamp_min(torch.tensor([0, 0, 0, -0.5]))
    return low, high - low


def jitter_keys(params: Jitter, chosen: Tensor) -> Tensor:
    """(n,): 3 minus the number of blends before the hue; 4 for images not chosen."""
    before = params.order.argmax(dim=1)  # HUE is the largest of the numbers.
    return torch.where(chosen, 3 - before, 4)


def plan_jitter(
    operations: Operations, params: Jitter, keys: Tensor, channels: int
) -> None:
    """Plan the jitter of images with these `jitter_keys`.

    The images are sorted by the number of blends before the hue. Then hue is one call
    for all images, and each of the 1st, 2nd and 3rd blend is two calls: for images that
    blend before the hue and for images that blend after the hue.
    """
    rows = operations.sort(keys, kinds=5)
    end = rows[3].stop
    who = operations.who[:end]
    order, factors = params.order[who], params.factors[who]
    kinds = order[order != HUE].view(end, 3)  # the blends of each image, in order
    steps = blends(kinds.T, factors.gather(1, kinds).T, channels)  # (3, n, ...) each
    borders = (rows[2].stop, rows[1].stop, rows[0].stop)  # over 0, 1, 2 blends before
    jitter = partial(_jitter_, borders)
    operations.change(slice(0, end), jitter, factors[:, HUE], *steps)


def _jitter_(
    borders: tuple[int, ...], images: Tensor, shifts: Tensor, *blends: Tensor
) -> None:
    steps = list(zip(*blends, strict=True))
    for border, step in zip(borders, steps, strict=True):
        blend_(images[:border], Blends(*(x[:border] for x in step)))
    hue_(images, shifts)
    for border, step in zip(borders, steps, strict=True):
        blend_(images[border:], Blends(*(x[border:] for x in step)))


def grey_rows_(images: Tensor, rows: Tensor) -> None:
    """Make some images grey; copying few out and back costs less than sorting all."""
    images.index_copy_(0, rows, grey_(images.index_select(0, rows)))
