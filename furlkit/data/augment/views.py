"""Compose the operations to augmented views of a batch."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.data.augment import colour, filters, geometry, randaugment
from furlkit.data.augment.arrange import Arranged, draw_chosen
from furlkit.errors import InputError, UsageError

SOLARISE_THRESHOLD = 0.5


@dataclass(frozen=True)
class Augmentation:
    """The operations on an image, in the order in which they are applied.

    flip, jitter_probability, grey, blur and solarise are probabilities. crop_scale and
    crop_ratio of (1, 1) disable the crop. randaugment is the number of operations
    (0 disables it) and their magnitude, 0 to 30; it is applied between flip and jitter.
    """

    crop_scale: tuple[float, float] = (0.2, 1.0)
    crop_ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5
    jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1)
    jitter_probability: float = 0.8
    grey: float = 0.2
    blur: float = 0.0
    blur_sigma: tuple[float, float] = (0.1, 2.0)
    solarise: float = 0.0
    cutout: int = 0
    randaugment: tuple[int, int] = (0, 9)

    def __post_init__(self) -> None:
        _check_range("crop_scale", self.crop_scale, 1, "area, at most 1")
        _check_range("crop_ratio", self.crop_ratio, math.inf, "width / height")
        _check_range("blur_sigma", self.blur_sigma, math.inf, "pixels")
        *factors, hue = self.jitter
        good = min(factors) >= 0 and 0 <= hue <= 0.5
        expected = "brightness, contrast, saturation of at least 0, hue of 0 to 0.5"
        _check("jitter", self.jitter, good, expected)
        operations, magnitude = self.randaugment
        good = operations >= 0 and 0 <= magnitude <= randaugment.TOP_MAGNITUDE
        expected = "a number of operations, 0 for none, and a magnitude from 0 to 30"
        _check("randaugment", self.randaugment, good, expected)

    @property
    def crops(self) -> bool:
        """Whether images are cropped."""
        return (*self.crop_scale, *self.crop_ratio) != (1, 1, 1, 1)


def _check_range(
    name: str, value: tuple[float, float], most: float, meaning: str
) -> None:
    good = 0 < value[0] <= value[1] <= most
    _check(name, value, good, f"two positive numbers, the smaller first ({meaning})")


def _check(name: str, value: object, good: bool, expected: str) -> None:
    if not good:
        flag = "--" + name.replace("_", "-")
        raise UsageError(f"{flag}: found {value}, expected {expected}")


def augment(
    images: Tensor, how: Augmentation, size: int, generator: torch.Generator
) -> Tensor:
    """One view: uint8 (B, H, W, C) -> float32 (B, C, size, size) in [0, 1]."""
    return _views(images, how, size, generator, count=1)


def two_views(
    images: Tensor, how: Augmentation, size: int, generator: torch.Generator
) -> Tensor:
    """Two independent views: (2 B, C, size, size), first all of view 1, then view 2."""
    return _views(images, how, size, generator, count=2)


def plain(images: Tensor, size: int) -> Tensor:
    """No augmentation: uint8 (B, H, W, C) -> float32 (B, C, size, size) in [0, 1].

    Images of another size are resized, bilinear with antialiasing.
    """
    batch = _unit(images)
    if batch.shape[2:] == (size, size):
        return batch
    return F.interpolate(batch, (size, size), mode="bilinear", antialias=True)


def normalise(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    layout: torch.memory_format = torch.preserve_format,
) -> Tensor:
    """(images - mean) / std per channel of float (B, C, H, W), in the given layout."""
    shift, scale = images.new_tensor([mean, std]).view(2, -1, 1, 1)  # (C, 1, 1) each
    # Arithmetic on contiguous planes is several times as fast as on interleaved
    # channels, so the layout changes only at the end.
    return torch.sub(images, shift).mul_(1 / scale).to(memory_format=layout)


def _unit(images: Tensor) -> Tensor:
    """uint8 (B, H, W, C) -> float (B, C, H, W) in [0, 1], with the same strides."""
    _check_stored(images)
    return images.float().mul_(1 / 255).permute(0, 3, 1, 2)


def _check_stored(images: Tensor) -> None:
    if images.dtype != torch.uint8 or images.ndim != 4 or images.shape[3] not in (1, 3):
        found = f"{images.dtype} {tuple(images.shape)}"
        raise InputError(f"images: found {found}, expected uint8 (B, H, W, 1 or 3)")


def _views(
    images: Tensor, how: Augmentation, size: int, generator: torch.Generator, count: int
) -> Tensor:
    n = count * len(images)
    jitter = _draw_jitter(n, how, generator)
    # Images are created in the order that jitter needs, so that it need not sort them.
    keys = colour.jitter_keys(*jitter) if jitter else torch.zeros(n, dtype=torch.int64)
    who = keys.argsort(stable=True)
    # A caller's autocast must not reduce the precision of the resize products. The last
    # step is outside inference mode: autograd cannot use inference tensors.
    with torch.inference_mode(), torch.autocast(images.device.type, enabled=False):
        arranged = Arranged(_cropped(images, how, size, generator, who), who)
        operations, magnitude = how.randaugment
        if operations:
            draws = randaugment.draw_randaugment(n, operations, generator)
            randaugment.randaugment_arranged(arranged, draws, magnitude)
        if jitter:
            colour.jitter_chosen(arranged, *jitter)
        _apply_filters(arranged, how, generator)
    batch = arranged.restored()
    if how.cutout:
        centres = filters.draw_centres(len(batch), generator)
        filters.cutout_(batch, centres, how.cutout)
    return batch


def _draw_jitter(
    n: int, how: Augmentation, generator: torch.Generator
) -> tuple[colour.Jitter, Tensor] | None:
    if not how.jitter_probability or not any(how.jitter):
        return None
    params = colour.draw_jitter(n, how.jitter, generator)
    return params, draw_chosen(n, how.jitter_probability, generator)


def _cropped(
    images: Tensor,
    how: Augmentation,
    size: int,
    generator: torch.Generator,
    who: Tensor,
) -> Tensor:
    """Crop and flip: (n, C, size, size); row i is a view of image who[i] % B."""
    n, sides = len(who), (images.shape[1], images.shape[2])
    _check_stored(images)
    who, rows = who % max(len(images), 1), who.to(generator.device)
    if how.crops:
        scale, ratio = how.crop_scale, how.crop_ratio
        boxes = geometry.draw_crops(n, sides, scale, ratio, generator)
        flips = draw_chosen(n, how.flip, generator)
        planes, boxes, flips = images.permute(0, 3, 1, 2), boxes[rows], flips[rows]
        return geometry.resized_crop(planes, who, boxes, flips, size, scale=1 / 255)
    whole = plain(images, size).contiguous().index_select(0, who.to(images.device))
    return geometry.flip(whole, draw_chosen(n, how.flip, generator)[rows])


def _apply_filters(
    arranged: Arranged, how: Augmentation, generator: torch.Generator
) -> None:
    """Apply grey, blur and solarisation in place."""
    n = len(arranged.images)
    grey = draw_chosen(n, how.grey, generator).cpu()
    if how.blur:
        blur = draw_chosen(n, how.blur, generator).cpu()
        sigmas = filters.draw_sigmas(n, how.blur_sigma, generator)
        # In the order grey, grey and blurred, blurred, neither, the grey images are one
        # slice and so are the blurred ones.
        keys = torch.where(grey, blur.int(), 3 - blur.int())
        _, both, last, _ = arranged.sort(keys, kinds=4)
        colour.grey_(arranged.images[: both.stop])
        blurred = slice(both.start, last.stop)
        part, sigmas = arranged.images[blurred], sigmas.cpu()[arranged.who[blurred]]
        filters.blur_(part, sigmas, filters.blur_taps(part.shape[3]))
    elif how.grey:
        # Copying the few grey images out and back costs less than sorting all.
        rows = arranged.rows_of(grey)
        part = colour.grey_(arranged.images.index_select(0, rows))
        arranged.images.index_copy_(0, rows, part)
    if how.solarise:
        chosen = draw_chosen(n, how.solarise, generator).cpu()
        _, solarised = arranged.sort(chosen.int(), kinds=2)
        part = arranged.images[solarised]
        filters.solarise_(part, torch.full((len(part),), SOLARISE_THRESHOLD))
