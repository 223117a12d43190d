"""RandAugment: some operations per image, drawn from a list of fourteen.

The list and the magnitudes are torchvision's, with 31 bins, nearest sampling and black
fill. torchvision rounds to 8 bits after each operation; here values stay float.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from furlkit.data.augment import colour
from furlkit.data.augment.arrange import Array, Operations, per_image
from furlkit.data.augment.filters import solarise_
from furlkit.data.augmentation import TOP_MAGNITUDE
from furlkit.data.transfer import constant

KINDS = (
    *("identity", "shear-x", "shear-y", "translate-x", "translate-y", "rotate"),
    *("brightness", "saturation", "contrast", "sharpness", "posterise", "solarise"),
    *("autocontrast", "equalise"),
)
GEOMETRIC = KINDS[1:6]
BLENDS = {
    "brightness": colour.BRIGHTNESS,
    "saturation": colour.SATURATION,
    "contrast": colour.CONTRAST,
}


class Draws(NamedTuple):
    """kinds: (n, operations) indices into KINDS. signs: (n, operations), -1 or 1."""

    kinds: Array
    signs: Array


def draw_randaugment(n: int, operations: int, generator: Generator) -> Draws:
    """Draw kinds, with repetition, and signs uniformly."""
    shape = (n, operations)
    kinds = torch.randint(len(KINDS), shape, generator=generator)
    signs = torch.randint(2, shape, generator=generator) * 2 - 1
    return Draws(kinds.numpy(), signs.numpy())


def plan_randaugment(operations: Operations, draws: Draws, magnitude: int) -> None:
    """Plan the operations of each image."""
    for kinds, signs in zip(draws.kinds.T, draws.signs.T, strict=True):
        rows = operations.sort(kinds, len(KINDS))
        for kind, part in zip(KINDS, rows, strict=True):
            share = np.float32(magnitude / TOP_MAGNITUDE)
            levels = signs[operations.who[part]].astype(np.float32) * share
            operations.change(part, partial(operate_, kind=kind), levels)


def operate_(images: Tensor, levels: Tensor, kind: str) -> Tensor:
    """One operation on all images, in place; levels: (n,) signed, in [-1, 1]."""
    if kind in GEOMETRIC:
        matrices = affine_matrices(kind, levels, images.shape[2], images.shape[3])
        return images.copy_(sample_affine(images, matrices))
    if kind in BLENDS:
        kinds = torch.full_like(levels, BLENDS[kind], dtype=torch.long)
        table = constant(colour.blend_table(images.shape[1]), levels)
        blends = colour.blends(kinds, 1 + 0.9 * levels, table)
        return colour.blend_(images, blends)
    if kind == "sharpness":
        return sharpness_(images, 1 + 0.9 * levels)
    if kind == "posterise":
        return posterise_(images, 8 - (4 * levels.abs()).round())
    if kind == "solarise":
        return solarise_(images, 1 - levels.abs())
    if kind == "autocontrast":
        return autocontrast_(images)
    return equalise_(images) if kind == "equalise" else images


def affine_matrices(kind: str, levels: Tensor, height: int, width: int) -> Tensor:
    """(n, 2, 3): from output to source pixels, both relative to the image's centre."""
    one, zero = torch.ones_like(levels), torch.zeros_like(levels)
    shear, angle = 0.3 * levels, torch.deg2rad(30 * levels)
    shift = 150 / 331 * levels
    rows = {
        "shear-x": (one, shear, shear * height / 2, zero, one, zero),
        "shear-y": (one, zero, zero, shear, one, shear * width / 2),
        "translate-x": (one, zero, -(shift * width).trunc(), zero, one, zero),
        "translate-y": (one, zero, zero, zero, one, -(shift * height).trunc()),
        "rotate": (angle.cos(), -angle.sin(), zero, angle.sin(), angle.cos(), zero),
    }
    return torch.stack(rows[kind], dim=1).view(-1, 2, 3)


def sample_affine(images: Tensor, matrices: Tensor) -> Tensor:
    """The nearest source pixel of each output pixel; 0 outside the image."""
    _, _, height, width = images.shape
    y = torch.arange(height, device=images.device) - (height - 1) / 2
    x = torch.arange(width, device=images.device) - (width - 1) / 2
    place = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=2)  # (H, W, 2)
    linear, shift = matrices.to(images.dtype).split([2, 1], dim=2)
    source = place.view(1, -1, 2) @ linear.transpose(1, 2) + shift.transpose(1, 2)
    grid = source / constant((width / 2, height / 2), source)  # (n, H * W, 2)
    return F.grid_sample(
        images, grid.view(-1, height, width, 2), mode="nearest", align_corners=False
    )


def sharpness_(images: Tensor, factors: Tensor) -> Tensor:
    """Blend with a 3 x 3 blur; the outermost pixels are unchanged."""
    _, _, height, width = images.shape
    if height <= 2 or width <= 2:
        return images
    inner = images[:, :, 1:-1, 1:-1]
    blurred = (9 * F.avg_pool2d(images, 3, stride=1) + 4 * inner) / 13
    inner.lerp_(blurred, 1 - per_image(factors, images)).clamp_(0, 1)
    return images


def posterise_(images: Tensor, bits: Tensor) -> Tensor:
    """Keep the highest `bits` of the 8 bits of each value."""
    step = per_image(2.0 ** (8 - bits), images)
    return images.copy_((_levels(images) / step).floor_() * (step / 255))


def autocontrast_(images: Tensor) -> Tensor:
    """Stretch each channel to [0, 1]; a constant channel is unchanged."""
    low = images.amin(dim=(2, 3), keepdim=True)  # (n, C, 1, 1)
    spread = images.amax(dim=(2, 3), keepdim=True) - low
    flat = spread == 0
    return images.sub_(low.masked_fill(flat, 0)).div_(spread.masked_fill(flat, 1))


def equalise_(images: Tensor) -> Tensor:
    """Flatten the histogram of each channel by PIL's integer rule on 256 levels.

    A channel with fewer than 255 pixels below its brightest level is unchanged.
    """
    levels = _levels(images).long().flatten(2)  # (n, C, P)
    ones = torch.ones_like(levels)
    histogram = ones.new_zeros(*levels.shape[:2], 256).scatter_add_(2, levels, ones)
    brightest = levels.amax(dim=2, keepdim=True)
    pixels = levels.shape[2] - histogram.gather(2, brightest)
    step = pixels // 255  # (n, C, 1)
    divisor = step.clamp_min(1)
    below = histogram.cumsum(dim=2) - histogram  # (n, C, 256)
    table = ((below + divisor // 2) // divisor).clamp_(0, 255)
    table = torch.where(step > 0, table, torch.arange(256, device=images.device))
    return images.copy_((table.gather(2, levels) / 255).view_as(images))


def _levels(images: Tensor) -> Tensor:
    return (images * 255).round_()
