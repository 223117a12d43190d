"""Compose the operations to augmented views of a batch."""

from collections.abc import Sequence
from functools import cache, partial

import numpy as np
import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from furlkit.data.augment import colour, filters, geometry, randaugment
from furlkit.data.augment.arrange import (
    Array,
    Operation,
    Operations,
    draw_chosen,
    uniform,
)
from furlkit.data.augmentation import Augmentation
from furlkit.data.transfer import constant
from furlkit.errors import InputError

SOLARISE_THRESHOLD = 0.5
WHITE = {torch.uint8: 255, torch.uint16: 65535}  # by the types of stored images


def plain(images: Tensor, size: int) -> Tensor:
    """No augmentation: uint8 (B, H, W, C) -> float32 (B, C, size, size) in [0, 1].

    Images of another size are resized, bilinear with antialiasing.
    """
    _check_stored(images)
    unit = images.contiguous().float().mul_(1 / WHITE[images.dtype])
    batch = unit.permute(0, 3, 1, 2)
    if batch.shape[2:] == (size, size):
        return batch
    return F.interpolate(batch, (size, size), mode="bilinear", antialias=True)


def normalise(
    images: Tensor,
    mean: Sequence[float],
    std: Sequence[float],
    layout: torch.memory_format = torch.preserve_format,
    overwrite: bool = False,
) -> Tensor:
    """(images - mean) / std per channel of float (B, C, H, W), in the given layout.

    `overwrite` lets it compute in the memory of the images, which is faster.
    """
    shift = constant(_per_channel(tuple(mean)), images)  # (C, 1, 1)
    factor = constant(_per_channel(_inverse(tuple(std))), images)  # (C, 1, 1)
    # Arithmetic on contiguous planes is several times as fast as on interleaved
    # channels, so the layout changes only at the end.
    shifted = torch.sub(images, shift, out=images if overwrite else None)
    return _laid_out(shifted.mul_(factor), layout)


@cache
def _inverse(values: tuple[float, ...]) -> tuple[float, ...]:
    return tuple((1 / torch.tensor(values)).tolist())


@cache
def _per_channel(values: tuple[float, ...]) -> tuple[tuple[tuple[float]], ...]:
    """Values in the shape (C, 1, 1), which acts on (n, C, H, W)."""
    return tuple(((value,),) for value in values)


def _laid_out(images: Tensor, layout: torch.memory_format) -> Tensor:
    """`images.to(memory_format=layout)`; planes are interleaved by the faster stack."""
    if layout is not torch.channels_last or images.is_contiguous(memory_format=layout):
        return images.to(memory_format=layout)
    return torch.stack(images.unbind(1), dim=3).permute(0, 3, 1, 2)


def _check_stored(images: Tensor) -> None:
    if images.dtype not in WHITE or images.ndim != 4:
        found = f"{images.dtype} {tuple(images.shape)}"
        raise InputError(
            f"images: found {found}, expected uint8 or uint16 (B, H, W, C)"
        )


def augment(
    images: Tensor, how: Augmentation, size: int, generator: Generator, views: int = 1
) -> Tensor:
    """Independent views: uint8 (B, H, W, C) -> float32 (views * B, C, size, size).

    Values are in [0, 1]. All images of view 1 come first, then all of view 2.
    """
    return draw_views(images, how, size, generator, views).run(images)


def draw_views(
    images: Tensor, how: Augmentation, size: int, generator: Generator, views: int = 1
) -> Operations:
    """Draw the operations of `augment`, to be run later."""
    how.check_channels(images.shape[3])
    _check_stored(images)
    n, channels = views * len(images), images.shape[3]
    jitter = _draw_jitter(n, how, generator)
    # Images are created in the order that jitter needs, so that it need not sort them.
    operations = Operations(jitter[1] if jitter else np.zeros(n, np.int64))
    crop = _draw_crop(images, how, size, generator, operations.who)
    count, magnitude = how.randaugment
    if count:
        draws = randaugment.draw_randaugment(n, count, generator)
        randaugment.plan_randaugment(operations, draws, magnitude)
    if jitter:
        colour.plan_jitter(operations, *jitter, channels)
    _plan_filters(operations, how, size, generator)
    operations.begin(*crop)
    return operations


def _draw_jitter(
    n: int, how: Augmentation, generator: Generator
) -> tuple[colour.Jitter, Array] | None:
    """Factors and order of each jitter, and the keys by which it sorts the images."""
    if not how.jitter_probability or not any(how.jitter):
        return None
    params = colour.draw_jitter(n, how.jitter, generator)
    chosen = draw_chosen(n, how.jitter_probability, generator)
    return params, colour.jitter_keys(params, chosen)


def _draw_crop(
    images: Tensor, how: Augmentation, size: int, generator: Generator, who: Array
) -> tuple[Operation, *tuple[Array, ...]]:
    """A function that crops and flips, and its parameters; row i is of image who[i]."""
    n, sides = len(who), (images.shape[1], images.shape[2])
    source = who % max(len(images), 1)
    if not how.crops:
        flips = draw_chosen(n, how.flip, generator)
        return partial(_whole, size), source, flips[who]
    scale, ratio = how.crop_scale, how.crop_ratio
    boxes = geometry.draw_crops(n, sides, scale, ratio, generator)
    flips = draw_chosen(n, how.flip, generator)
    return partial(_cropped, size), source, boxes[who], flips[who]


def _whole(size: int, images: Tensor, who: Tensor, flips: Tensor) -> Tensor:
    """(n, C, size, size): whole images, resized and flipped."""
    return geometry.flip(plain(images, size).contiguous().index_select(0, who), flips)


def _cropped(
    size: int, images: Tensor, who: Tensor, boxes: Tensor, flips: Tensor
) -> Tensor:
    """(n, C, size, size): boxes of images, resized and flipped."""
    scale = 1 / WHITE[images.dtype]
    if images.dtype == torch.uint16:  # Few operations take this type.
        images = images.float()
    planes = images.permute(0, 3, 1, 2)
    return geometry.resized_crop(planes, who, boxes, flips, size, scale=scale)


def _plan_filters(
    operations: Operations, how: Augmentation, size: int, generator: Generator
) -> None:
    """Plan grey, blur, solarisation and cutout."""
    n = len(operations.who)
    grey = draw_chosen(n, how.grey, generator)
    if how.blur:
        blur = draw_chosen(n, how.blur, generator)
        sigmas = filters.draw_sigmas(n, how.blur_sigma, generator)
        # In the order grey, grey and blurred, blurred, neither, the grey images are one
        # slice and so are the blurred ones.
        keys = np.where(grey, blur, 3 - blur)
        _, both, last, _ = operations.sort(keys, kinds=4)
        operations.change(slice(0, both.stop), colour.grey_)
        blurred = slice(both.start, last.stop)
        blur_ = partial(filters.blur_, taps=filters.blur_taps(size))
        operations.change(blurred, blur_, sigmas[operations.who[blurred]])
    elif how.grey:
        rows = grey[operations.who].nonzero()[0]
        operations.change(slice(None), colour.grey_rows_, rows)
    if how.solarise:
        chosen = draw_chosen(n, how.solarise, generator)
        _, solarised = operations.sort(chosen.astype(np.int64), kinds=2)
        operations.change(solarised, _solarise_)
    if how.cutout:
        centres = uniform(generator, n, 2)[operations.who]
        cutout_ = partial(filters.cutout_, side=how.cutout)
        operations.change(slice(None), cutout_, centres)


def _solarise_(images: Tensor) -> None:
    filters.solarise_(images, images.new_full((len(images),), SOLARISE_THRESHOLD))
