"""Decode image files of any mode to uint8 pixels."""

import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.resize import centre, resized_shape
from furlkit.errors import InputError


def decode_image(path: Path, size: int | None, channels: int) -> np.ndarray:
    """Decode one image to (H, W, channels) uint8, rotated by its EXIF orientation.

    With a size, the shorter side is resized to it and the centre is cropped.
    """
    mode = "RGB" if channels == 3 else "L"
    image = _open(path, lambda image: _convert(image, mode))
    if size is not None:
        image = _resize_and_crop(image, size)
    return np.asarray(image).reshape(image.height, image.width, channels)


def image_size_of(path: Path) -> tuple[int, int]:
    """Height and width that `decode_image` gives without a size."""
    return _open(path, lambda image: _upright(image).size)[::-1]


def _open(path: Path, read: Callable[[Any], Any]) -> Any:
    """Apply `read` while the file is open: PIL reads pixels only when they are used."""
    from PIL import Image

    try:
        with Image.open(path) as image:
            return read(image)
    except (
        OSError,
        ValueError,
        SyntaxError,
        EOFError,
        MemoryError,
        struct.error,
    ) as error:
        raise InputError(f"{path}: cannot be read as an image ({error})") from error
    except Image.DecompressionBombError as error:
        raise InputError(f"{path}: has too many pixels ({error})") from error


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _convert(image: Any, mode: str) -> Any:
    image = _upright(image)
    if image.mode.startswith("I"):
        image = _eight_bits(image)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # avoids a warning; same pixels
    return image.convert(mode)


def _eight_bits(image: Any) -> Any:
    """16-bit grey to 8 bits; PIL's own conversion clips values above 255 to white."""
    from PIL import Image

    values = np.asarray(image).astype(np.int64)
    return Image.fromarray(np.clip(values // 257, 0, 255).astype(np.uint8))


def _resize_and_crop(image: Any, size: int) -> Any:
    from PIL import Image

    height, width = resized_shape(image.height, image.width, size)
    if (height, width) != (image.height, image.width):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    top, left = centre(height, width, size)
    return image.crop((left, top, left + size, top + size))
