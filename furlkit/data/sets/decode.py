"""From an image file to uint8 pixels, whatever mode it was saved in."""

import struct
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.resize import centre, fitted_size
from furlkit.errors import InputError


def decode_image(path: Path, size: int | None, channels: int) -> np.ndarray:
    """Decode one image to (H, W, channels) uint8, turned as its camera was held.

    With a size, the shorter side is resized to it and the centre is cut out.
    """
    image = _opened(
        path, lambda opened: _as_mode(opened, "RGB" if channels == 3 else "L")
    )
    if size is not None:
        image = _fitted(image, size)
    return np.asarray(image).reshape(image.height, image.width, channels)


def image_size_of(path: Path) -> tuple[int, int]:
    """Height and width of an image as it will be decoded."""
    return _opened(path, lambda opened: _upright(opened).size)[::-1]


def _opened(path: Path, use: Any) -> Any:
    from PIL import Image

    try:
        with Image.open(path) as image:
            return use(image)
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
        raise InputError(f"{path}: has too many pixels to be true ({error})") from error


def _upright(image: Any) -> Any:
    from PIL import ImageOps

    return ImageOps.exif_transpose(image)


def _as_mode(image: Any, mode: str) -> Any:
    image = _upright(image)
    if image.mode.startswith("I"):
        image = _eight_bits(image)
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # silences a warning; the pixels are the same
    return image.convert(mode)


def _eight_bits(image: Any) -> Any:
    """16-bit grey to 8 bits; PIL's own conversion cuts all bright values to white."""
    from PIL import Image

    values = np.asarray(image).astype(np.int64)
    return Image.fromarray(np.clip(values // 257, 0, 255).astype(np.uint8))


def _fitted(image: Any, size: int) -> Any:
    from PIL import Image

    height, width = fitted_size(image.height, image.width, size)
    if (height, width) != (image.height, image.width):
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    top, left = centre(height, width, size)
    return image.crop((left, top, left + size, top + size))
