"""Crops and flips."""

import math
from functools import cache, lru_cache

import numpy as np
import torch
from torch import Generator, Tensor

from furlkit.data.augment.arrange import Array, uniform
from furlkit.data.transfer import constant

ATTEMPTS = 10


def draw_crops(
    n: int,
    sides: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: Generator,
) -> Array:
    """Boxes of random area and aspect, as in torchvision's RandomResizedCrop.

    sides: height and width of the images. Returns (n, 4) whole numbers as float32:
    top, left, height, width. Ten shapes are drawn and the first that fits is used; if none fits, it is the
    largest centred box within the ratios. The generator advances equally for any sides.
    """
    area, aspect = uniform(generator, 2, n, ATTEMPTS)
    place = uniform(generator, 2, n)
    low, high = math.log(ratio[0]), math.log(ratio[1])
    area *= scale[1] - scale[0]
    area += scale[0]
    area *= sides[0] * sides[1]
    aspect *= (high - low) / 2
    aspect += low / 2
    stretch = torch.from_numpy(aspect).exp_().numpy()  # root of the aspect
    side = np.sqrt(area, out=area)
    shape = np.empty((2, n, ATTEMPTS), np.float32)
    np.divide(side, stretch, out=shape[0])
    np.multiply(side, stretch, out=shape[1])
    np.rint(shape, out=shape)
    limits = np.array(sides, np.float32)[:, None]  # (2, 1)
    height_fits, width_fits = (shape > 0) & (shape <= limits[:, None])
    fits = height_fits & width_fits  # (n, ATTEMPTS)
    attempt = np.arange(n), fits.argmax(axis=1)  # the first that fits
    boxes = np.empty((4, n), np.float32)
    boxes[2:] = shape[:, *attempt]
    np.floor(place * (limits - boxes[2:] + 1), out=boxes[:2])
    unfit = ~fits[attempt]
    if unfit.any():
        boxes.T[unfit] = _centred_box(*sides, ratio)
    return boxes.T


def _centred_box(
    height: int, width: int, ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    h, w = height, width
    if width / height < ratio[0]:
        h = round(width / ratio[0])
    elif width / height > ratio[1]:
        w = round(height * ratio[1])
    return (height - h) // 2, (width - w) // 2, h, w


def resized_crop(
    images: Tensor,
    who: Tensor,
    boxes: Tensor,
    flips: Tensor,
    size: int,
    scale: float = 1.0,
) -> Tensor:
    """Crop a box of each image, resize to size x size, flip if flips is True.

    images: uint8 or float (B, C, H, W); boxes: (n, 4); flips: (n,) bool. Row i of the
    result (n, C, size, size) is a crop of image who[i], multiplied by `scale`.

    Bilinear resizing is separable and linear, so each axis is a product with a matrix
    of weights. At small sizes this is several times as fast as sampling pixels.
    """
    n, (_, channels, height, width) = len(who), images.shape
    across = resize_weights(boxes[:, 1::2], width, size, flips)  # (n, W, S)
    if height <= size and images.device.type == "cpu":
        rows = _enlarged_rows(images, who, boxes[:, 0::2], size, scale)  # (n, C * S, W)
    else:
        # In this layout one product contracts the last axis and the next one the first.
        # The bytes are rearranged before the conversion to floats, which are larger.
        source = images.permute(0, 3, 1, 2).contiguous()  # (B, W, C, H)
        source = source.index_select(0, who).float().view(n, width * channels, height)
        down = resize_weights(boxes[:, 0::2], height, size, scale=scale)  # (n, H, S)
        columns = torch.bmm(source, down).view(n, width, channels * size)
        rows = columns.transpose(1, 2)  # (n, C * S, W)
    return torch.bmm(rows, across).view(n, channels, size, size)


def _enlarged_rows(
    images: Tensor, who: Tensor, spans: Tensor, size: int, scale: float
) -> Tensor:
    """Resize the height of images (B, C, H, W) to (n, C * size, W), with size >= H.

    Each output row is then a mix of two source rows. Looking these up is cheaper than a
    product with a matrix of weights that are mostly 0.
    """
    n, (_, channels, height, width) = len(who), images.shape
    start, length = spans.float().split(1, dim=1)  # (n, 1)
    output = _centres(size, spans.device)  # (S,)
    place = torch.addcmul(start - 0.5, output, length, value=1 / size)
    centre = torch.clamp(place, start, start + length - 1).numpy()  # (n, S)
    upper = np.floor(centre)
    share = np.empty((n, size, 2), np.float32)  # of the upper and the lower row
    np.subtract(centre, upper, out=share[..., 1])
    np.subtract(1, share[..., 1], out=share[..., 0])
    share *= scale
    pair = np.empty((n, 1, size, 2), np.int32)
    pair[..., 0] = upper[:, None]
    np.minimum(pair[..., 0] + 1, height - 1, out=pair[..., 1])
    planes = who.numpy()[:, None] * channels + np.arange(channels)  # (n, C)
    rows = pair + (planes * height).astype(np.int32)[..., None, None]  # (n, C, S, 2)
    weights = np.empty(rows.shape, np.float32)
    weights[:] = share[:, None]
    resized, *_ = torch.embedding_bag(
        images.contiguous().float().view(-1, width),  # (B * C * H, W)
        torch.from_numpy(rows).view(-1),
        _bags(n * channels * size),
        per_sample_weights=torch.from_numpy(weights).view(-1),
    )
    return resized.view(n, channels * size, width)


@lru_cache(maxsize=8)
def _bags(count: int) -> Tensor:
    """First position of each pair in a list of pairs."""
    with torch.inference_mode(False):
        return torch.arange(0, 2 * count, 2, dtype=torch.int32)


@cache
def _centres(pixels: int, device: torch.device) -> Tensor:
    """Centres of the pixels of a side: 0.5, 1.5, ..."""
    with torch.inference_mode(False):
        return torch.arange(0.5, pixels, device=device)


@cache
def _mirrored(pixels: int, device: torch.device) -> Tensor:
    """(2, pixels): centres of the pixels from left to right, and from right to left."""
    with torch.inference_mode(False):
        centres = _centres(pixels, device)
        return torch.stack([centres, pixels - centres])


def resize_weights(
    spans: Tensor,
    source: int,
    size: int,
    flips: Tensor | None = None,
    scale: float = 1.0,
) -> Tensor:
    """(n, source, size): the weight of each source pixel in each output pixel.

    spans: (n, 2) first pixel and length of the cropped part. The weights are a triangle
    around the output pixel's centre, one source pixel wide, or as wide as an output
    pixel if that is larger (antialiasing). Pixels outside the span have weight 0. This
    equals torchvision's antialiased resize, and also the one without antialiasing if
    the span is not longer than the output. Each column sums to `scale`.
    """
    start, length = spans.float().split(1, dim=1)  # (n, 1)
    output = _centres(size, spans.device)  # (S,)
    pixel = _centres(source, spans.device).unsqueeze(1)  # (source, 1)
    if flips is not None:
        output = _mirrored(size, spans.device).index_select(0, flips.int())  # (n, S)
    centre = torch.addcmul(start, output, length, value=1 / size)  # (n, S)
    if source <= size:  # One pixel wide: clamping gives an edge pixel all the weight.
        centre = torch.clamp(centre, start + 0.5, start + length - 0.5)
        away = (centre.unsqueeze(1) - pixel).abs_()
        top = constant(scale, away)
        return torch.sub(top, away, alpha=scale, out=away).clamp_min_(0)
    start, length = start.unsqueeze(2), length.unsqueeze(2)
    reach = (length / size).clamp_min(1)
    weights = 1 - ((centre.unsqueeze(1) - pixel) / reach).abs_().clamp_max_(1)
    weights *= (pixel > start) & (pixel < start + length)
    return weights * (scale / weights.sum(dim=1, keepdim=True))


def flip(images: Tensor, flips: Tensor) -> Tensor:
    """Mirror images (n, C, H, W) left to right where flips (n,) bool is True."""
    return torch.where(flips.view(-1, 1, 1, 1), images.flip(3), images)
