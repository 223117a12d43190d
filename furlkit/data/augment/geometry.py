"""Crops and flips."""

import math
from functools import cache

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from furlkit.data.augment.arrange import uniform
from furlkit.data.transfer import constant

ATTEMPTS = 10


def draw_crops(
    n: int,
    sides: tuple[int, int],
    scale: tuple[float, float],
    ratio: tuple[float, float],
    generator: Generator,
) -> Tensor:
    """Boxes of random area and aspect, as in torchvision's RandomResizedCrop.

    sides: height and width of the images. Returns (n, 4) int64: top, left, height,
    width. Ten shapes are drawn and the first that fits is used; if none fits, it is the
    largest centred box within the ratios. The generator advances equally for any sides.
    """
    (area, aspect), place = (
        uniform(generator, 2, n, ATTEMPTS),
        uniform(generator, 2, n, 1),
    )
    low, high = math.log(ratio[0]), math.log(ratio[1])
    area.mul_(scale[1] - scale[0]).add_(scale[0]).mul_(sides[0] * sides[1])
    stretch = aspect.mul_(high - low).add_(low).div_(2).exp_()  # root of the aspect
    side = area.sqrt_()
    shape = torch.stack([side / stretch, side * stretch]).round_()  # (2, n, ATTEMPTS)
    limits = constant(sides, shape).view(2, 1, 1)
    height_fits, width_fits = (shape > 0) & (shape <= limits)
    fits = height_fits & width_fits  # (n, ATTEMPTS)
    first = fits.byte().argmax(dim=1, keepdim=True)  # (n, 1)
    shape = shape.gather(2, first.expand(2, n, 1))  # (2, n, 1)
    start = (place * (limits - shape + 1)).floor_()
    boxes = torch.cat([start, shape]).squeeze(2).T.long()  # (n, 4)
    fallback = constant(_centred_box(*sides, ratio), boxes)
    return torch.where(fits.any(dim=1, keepdim=True), boxes, fallback)


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
    _, channels, height, width = images.shape
    start, length = spans.float().split(1, dim=1)  # (n, 1)
    output = _centres(size, spans.device)  # (S,)
    centre = torch.addcmul(start - 0.5, output, length, value=1 / size)
    centre = torch.clamp(centre, start, start + length - 1)  # (n, S)
    upper = centre.floor()
    lower = (upper + 1).clamp_max_(height - 1)
    share = centre - upper  # of the lower row, (n, S)
    who = who.int()[:, None, None, None]  # (n, 1, 1, 1)
    planes = constant(tuple(range(0, channels * height, height)), who).view(-1, 1, 1)
    pairs = _pairs(upper, lower).int().unsqueeze(1)  # (n, 1, S, 2)
    rows = who * (channels * height) + planes + pairs  # (n, C, S, 2)
    weights = _pairs(1 - share, share).mul_(scale).unsqueeze(1)  # (n, 1, S, 2)
    return F.embedding_bag(
        rows.view(-1, 2),
        images.contiguous().float().view(-1, width),  # (B * C * H, W)
        per_sample_weights=weights.expand(rows.shape).reshape(-1, 2),
        mode="sum",
    ).view(len(who), channels * size, width)


@cache
def _centres(pixels: int, device: torch.device) -> Tensor:
    """Centres of the pixels of a side: 0.5, 1.5, ..."""
    with torch.inference_mode(False):
        return torch.arange(0.5, pixels, device=device)


def _pairs(first: Tensor, second: Tensor) -> Tensor:
    """`torch.stack` on a new last axis, several times as fast."""
    return torch.view_as_real(torch.complex(first, second))


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
        output = torch.where(flips.unsqueeze(1), size - output, output)  # (n, S)
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
