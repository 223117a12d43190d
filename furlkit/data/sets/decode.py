"""Decode image files of any mode to uint8 pixels.

Pillow may open the formats that are named here and no others: one of its readers, that
of PostScript, would start an interpreter for whatever a file contains.
"""

import hashlib
import io
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from furlkit.data.sets.resize import resized_shape
from furlkit.errors import InputError

FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
GREY = ("1", "L", "LA", "La", "I", "F")  # and the 16-bit modes, which begin with I
MOST_PIXELS = 89_478_485  # Pillow's own limit, above which it warns
MOST_BYTES = 2**30
# Such an image is refused here; Pillow need not warn of it as well.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)


class Decoded(NamedTuple):
    """One image, upright: pixels (H, W, C), whether it was grey, its file's sha256."""

    pixels: np.ndarray
    grey: bool
    digest: bytes

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.pixels.shape[1], self.pixels.shape[0]


def read_file(path: Path) -> bytes:
    """The bytes of an image file; every file of a folder is opened here."""
    with open(path, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return content


def decode_file(path: Path, channels: int) -> Decoded:
    """Decode one image of any size, rotated by its EXIF orientation."""
    found = decoded_or_reason(path, channels)
    if isinstance(found, str):
        raise InputError(
            f"{path}: cannot be read as an image ({found}); furlkit check lists all "
            "such files of a folder, pack --skip-broken leaves them out"
        )
    return found


def decoded_or_reason(path: Path, channels: int) -> Decoded | str:
    """The image, or why it cannot be read."""
    try:
        content = read_file(path)
        with Image.open(io.BytesIO(content), formats=FORMATS) as file:
            _check_pixels(file.width * file.height)
            grey = file.mode in GREY or file.mode.startswith("I;")
            mode = "RGB" if channels == 3 else "L"
            image = _convert(ImageOps.exif_transpose(file), mode)
    except Exception as error:  # Damaged files make PIL raise many kinds.
        return _reason(error)
    pixels = np.asarray(image).reshape(image.height, image.width, channels)
    return Decoded(pixels, grey, hashlib.sha256(content).digest())


def fitted(pixels: np.ndarray, size: int | None) -> np.ndarray:
    """Pixels (H, W, C) with the shorter side resized to `size` and the centre cropped.

    Without a size they are returned unchanged.
    """
    if size is None:
        return pixels
    image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
    height, width, top, left = resized_shape(image.height, image.width, size)
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    image = image.crop((left, top, left + size, top + size))
    return np.asarray(image).reshape(size, size, pixels.shape[2])


def _check_pixels(count: int) -> None:
    if count > MOST_PIXELS:
        raise Image.DecompressionBombError


def _reason(error: Exception) -> str:
    match error:
        case UnidentifiedImageError():
            return f"it is none of {', '.join(FORMATS)}"
        case Image.DecompressionBombError() | Image.DecompressionBombWarning():
            return f"it has more than {MOST_PIXELS:,} pixels"
        case OSError(strerror=str(words)):
            return words
    return str(error) or type(error).__name__


def _convert(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):
        # 16-bit grey to 8 bits; PIL's own conversion clips values above 255 to white.
        values = np.asarray(image).astype(np.int64)
        image = Image.fromarray(np.clip(values // 257, 0, 255).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # avoids a warning; same pixels
    return image.convert(mode)
