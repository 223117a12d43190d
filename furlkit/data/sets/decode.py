"""Decode image files of any mode to uint8 pixels."""

from pathlib import Path

import numpy as np
from PIL import Image, ImageOps

from furlkit.data.sets.resize import resized_shape
from furlkit.errors import InputError


def decode_image(path: Path, size: int | None, channels: int) -> np.ndarray:
    """Decode one image to (H, W, channels) uint8, rotated by its EXIF orientation.

    With a size, the shorter side is resized to it and the centre is cropped.
    """
    mode = "RGB" if channels == 3 else "L"
    try:
        with Image.open(path) as file:
            image = _convert(ImageOps.exif_transpose(file), mode)
    except Exception as error:  # Damaged files make PIL raise many kinds.
        raise InputError(f"{path}: cannot be read as an image ({error})") from error
    if size is not None:
        height, width, top, left = resized_shape(image.height, image.width, size)
        if (width, height) != image.size:
            image = image.resize((width, height), Image.Resampling.BILINEAR)
        image = image.crop((left, top, left + size, top + size))
    return np.asarray(image).reshape(image.height, image.width, channels)


def _convert(image: Image.Image, mode: str) -> Image.Image:
    if image.mode.startswith("I"):
        # 16-bit grey to 8 bits; PIL's own conversion clips values above 255 to white.
        values = np.asarray(image).astype(np.int64)
        image = Image.fromarray(np.clip(values // 257, 0, 255).astype(np.uint8))
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # avoids a warning; same pixels
    return image.convert(mode)
