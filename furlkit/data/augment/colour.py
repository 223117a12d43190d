"""Colour operations on float images (n, C, H, W) in [0, 1], in place.

Each operation takes one parameter per image and equals torchvision's on float tensors.
Saturation, hue and grey do nothing to grey images, as in torchvision.
"""

from functools import cache, partial
from typing import NamedTuple, TypeVar

import numpy as np
import torch
from torch import Generator, Tensor

from furlkit.data.augment.arrange import Array, Operations, per_image, uniform
from furlkit.data.transfer import constant

BRIGHTNESS, CONTRAST, SATURATION, HUE = range(4)
LUMA = (0.2989, 0.587, 0.114)
SMALLEST_CHROMA = 1e-12
Numbers = TypeVar("Numbers", Array, Tensor)


def blends(kinds: Numbers, factors: Numbers, table: Numbers) -> Numbers:
    """Brightness, contrast or saturation by kinds (..., n), with factors (..., n).

    The operations blend the image with black, the mean luma, or the luma:

        x -> clamp(keep x + y, 0, 1)        y = luma . x, or the mean of y if flat is 1

    In this common form, images with different operations are processed in one call.
    Returns (..., n, 1, 3 + C): keep, flat, 1 - flat and luma. `table` is `blend_table`.
    """
    numbers = table[kinds]  # (..., n, 3 + C)
    numbers[..., 0] = factors
    numbers[..., 3:] *= (1 - factors)[..., None]
    return numbers[..., None, :]


@cache
def blend_table(channels: int) -> tuple[tuple[float, ...], ...]:
    """Rows keep, flat, 1 - flat, luma for BRIGHTNESS, CONTRAST, SATURATION, factor 0."""
    luma = LUMA if channels == 3 else (1.0,)
    return (0, 0, 1, *(0.0 for _ in luma)), (0, 1, 0, *luma), (0, 0, 1, *luma)


@cache
def _table_array(channels: int) -> Array:
    return np.array(blend_table(channels), np.float32)


def blend_(images: Tensor, blends: Tensor) -> Tensor:
    """Apply one blend to each image."""
    n, channels, height, width = images.shape
    keep, flat, varied, luma = blends.split((1, 1, 1, channels), dim=2)
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
    Memory bandwidth limits the speed, so results overwrite tensors no longer needed, and
    the three channels are computed together in the memory of the images.
    """
    if images.shape[1] == 1:
        return images
    r, g, b = images.split(1, dim=1)  # (n, 1, H, W)
    v, c = torch.maximum(r, g), torch.minimum(r, g)
    torch.maximum(v, b, out=v)
    torch.sub(v, torch.minimum(c, b, out=c), out=c).clamp_min_(SMALLEST_CHROMA)
    h = (g - r).add_(b).sub_(v)
    torch.addcdiv(constant(1 / 3, h), h, c, value=1 / 6, out=h)
    h.copysign_(g - b).add_(1 + per_image(shifts, images)).frac_()
    centres = constant((1 / 2, 1 / 3, 2 / 3), h).view(3, 1, 1)
    torch.sub(h, centres, out=images).abs_().clamp_(1 / 6, 1 / 3)
    torch.sub(constant(1 / 2, r), r, out=r)
    return torch.addcmul(v.add_(c), images, c, value=-6, out=images)


class Jitter(NamedTuple):
    """One jitter per image."""

    order: Array  # (n, 4): the 1st to 4th operation
    factors: Array  # (n, 4): of BRIGHTNESS, CONTRAST, SATURATION and HUE


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
    factors *= width
    factors += low
    return Jitter(order.argsort(axis=1, kind="stable"), factors)


@cache
def _factor_range(strengths: tuple[float, ...]) -> tuple[Array, Array]:
    """Smallest factor and width of the range of factors, for each operation."""
    reach = np.array(strengths, np.float32)
    high = np.array([1, 1, 1, 0], np.float32) + reach
    low = np.maximum(high - 2 * reach, np.array([0, 0, 0, -0.5], np.float32))
    return low, high - low


def jitter_keys(params: Jitter, chosen: Array) -> Array:
    """(n,): 3 minus the number of blends before the hue; 4 for images not chosen."""
    before = params.order.argmax(axis=1)  # HUE is the largest of the numbers.
    return np.where(chosen, 3 - before, 4)


def plan_jitter(
    operations: Operations, params: Jitter, keys: Array, channels: int
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
    kinds = order[order != HUE].reshape(end, 3).T  # the blends of each image, in order
    factors_of_blends = factors[np.arange(end), kinds]  # (3, n)
    steps = blends(kinds, factors_of_blends, _table_array(channels))
    borders = (rows[2].stop, rows[1].stop, rows[0].stop)  # over 0, 1, 2 blends before
    jitter = partial(_jitter_, borders)
    operations.change(slice(0, end), jitter, factors[:, HUE], steps)


def _jitter_(
    borders: tuple[int, ...], images: Tensor, shifts: Tensor, blends: Tensor
) -> None:
    steps = list(zip(borders, blends, strict=True))
    for border, step in steps:
        blend_(images[:border], step[:border])
    hue_(images, shifts)
    for border, step in steps:
        blend_(images[border:], step[border:])


def grey_rows_(images: Tensor, rows: Tensor) -> None:
    """Make some images grey; copying few out and back costs less than sorting all."""
    images.index_copy_(0, rows, grey_(images.index_select(0, rows)))
