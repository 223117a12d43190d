"""Decode image files to pixels.

Pillow may open only the formats named here: Pillow's PostScript reader would start an
interpreter for the contents of a file. Images of 8 bits are decoded by Pillow; a window
maps the values of all other images to pixels.
"""

import hashlib
import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from furlkit.data.sets import dicom, nifti, tiff
from furlkit.data.sets.resize import resized_shape
from furlkit.data.sets.window import (
    AS_STORED,
    MOST_CHANNELS,
    MOST_PAGES,
    MOST_PIXELS,
    NeedsWindow,
    Raw,
    Reading,
    TooManyPixels,
    develop,
    type_range,
)
from furlkit.errors import FurlkitError, InputError

PNG = b"\x89PNG\r\n\x1a\n"
FORMATS = ("JPEG", "PNG", "BMP", "WEBP", "TIFF", "GIF", "PPM")
STARTS = {
    PNG: "PNG", b"\xff\xd8": "JPEG", b"GIF8": "GIF", b"BM": "BMP", b"RIFF": "WEBP",
    b"II": "TIFF", b"MM": "TIFF",
}  # fmt: skip
# Files of several frames contain these bytes; so may other files.
FRAMES = {b"GIF8": b"GIF8", b"RIFF": b"ANIM", PNG: b"acTL"}
GREY = ("1", "L", "LA", "La")
MODES = {1: "L", 3: "RGB"}  # Pillow's modes by channels
LUMA = np.array([19595, 38470, 7471])  # Pillow's weights of red, green, blue / 65536
MOST_BYTES = 2**30
# furlkit refuses such images; silence Pillow's warning.
warnings.filterwarnings("error", category=Image.DecompressionBombWarning)
# A later torchvision may lack the PNG decoder, which is handled here.
warnings.filterwarnings("ignore", category=DeprecationWarning, module="torchvision")


class Decoded(NamedTuple):
    """One upright image: pixels (H, W, C), True if grey, the file's sha256."""

    pixels: np.ndarray
    grey: bool
    digest: bytes

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return self.pixels.shape[1], self.pixels.shape[0]


def read_file(path: Path) -> bytes:
    """Read the bytes of an image file; every file of a folder is opened here."""
    with open(path, "rb") as stream:
        content = stream.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise ValueError(f"it has more than {MOST_BYTES:,} bytes")
    return content


def decode_file(
    path: Path,
    channels: int,
    reading: Reading = AS_STORED,
    page: int = 0,
    read: Callable[[Path], bytes] | None = None,
) -> Decoded:
    """Decode one image of any size, rotated by the EXIF orientation.

    `page` chooses a page if every page is an image. `read` returns the bytes of an
    image inside another file.
    """
    try:
        content = (read or read_file)(path)
        raw = read_raw(content, channels, reading, page)
        pixels = _with_channels(develop(raw, reading), channels, raw.colour)
        return Decoded(pixels, raw.grey, hashlib.sha256(content).digest())
    except NeedsWindow as error:
        raise NeedsWindow(f"{path}: {error}") from None
    except Exception as error:  # Damaged files make PIL raise many kinds.
        raise _unreadable(path, error) from error


def _unreadable(path: Path, error: Exception) -> InputError:
    return InputError(
        f"{path}: cannot be read as an image ({reason_of(error)}); furlkit check lists "
        "all broken files of a folder, pack --skip-broken leaves them out"
    )


def count_pages(
    path: Path, reading: Reading, read: Callable[[Path], bytes] | None = None
) -> int:
    """Number of images in a file, like `page_count`; an error names the file."""
    try:
        return page_count((read or read_file)(path), reading)
    except FurlkitError:
        raise
    except Exception as error:  # Damaged files make PIL raise many kinds.
        raise _unreadable(path, error) from error


def format_of(content: bytes) -> str:
    """Format of a readable file, by the first bytes."""
    if dicom.is_dicom(content):
        return "DICOM"
    if nifti.is_nifti(content):
        return "NIfTI"
    names = (name for start, name in STARTS.items() if content.startswith(start))
    return next(names, "PPM")


def page_count(content: bytes, reading: Reading) -> int:
    """Number of images in a file, by --pages each and --slices."""
    if reading.slices is not None and nifti.is_nifti(content):
        return nifti.slice_count(content, nifti.parse_slices(reading.slices))
    if reading.pages == "each" and content.startswith(tiff.STARTS):
        return tiff.read_tags(content).pages
    if reading.pages == "each" and dicom.is_dicom(content):
        return dicom.frame_count(content)
    return 1


def is_animation(content: bytes) -> bool:
    """Return True if a GIF, WebP or PNG file has several frames."""
    marks = [mark for start, mark in FRAMES.items() if content.startswith(start)]
    if not any(mark in content for mark in marks):
        return False
    try:
        with Image.open(io.BytesIO(content), formats=FORMATS) as file:
            return bool(getattr(file, "is_animated", False))
    except Exception:  # Decoding the image says what is wrong.
        return False


def read_raw(
    content: bytes, channels: int, reading: Reading = AS_STORED, page: int = 0
) -> Raw:
    """Values of an image; images of 8 bits are converted to 1 or 3 `channels`.

    Other images keep all channels of the file.
    """
    if reading.pages != "first" and is_animation(content):
        raise ValueError(
            "it is an animation; give --pages first, or save the frames in files"
        )
    if content.startswith(tiff.STARTS):
        raw = _raw_tiff(content, channels, reading, page)
    elif content.startswith(PNG) and content[24:25] == b"\x10":
        raw = _raw_png(content)
    elif dicom.is_dicom(content):
        raw = _raw_dicom(content, reading, page)
    elif nifti.is_nifti(content):
        raw = nifti.read_nifti(content, reading.slices, page)
    else:
        raw = None
    if raw is not None and not raw.values.size:
        raise ValueError("it has no pixels")
    if raw is not None:
        return raw
    with Image.open(io.BytesIO(content), formats=FORMATS) as file:
        if page:
            file.seek(page)
        _check_pixels(file.width * file.height)
        if file.mode == "F" or file.mode.startswith("I"):
            return _grey_values(file)
        if _white(file) > 255:
            raise ValueError("it is a PPM file of 16 bits in colour; convert to TIFF")
        grey = file.mode in GREY
        image = _convert(ImageOps.exif_transpose(file), MODES.get(channels, file.mode))
    values = np.asarray(image).reshape(image.height, image.width, -1)
    return Raw(values, grey=grey, colour=not grey)


def _raw_tiff(content: bytes, channels: int, reading: Reading, page: int) -> Raw | None:
    """Values of a TIFF file; None if Pillow reads them unchanged."""
    tags = tiff.read_tags(content)
    pages = _chosen_pages(tags.pages, tags.samples, reading, page)
    _check_pixels(tags.values * len(pages))
    if tags.ordinary and channels in MODES and len(pages) == 1:
        return None
    try:
        return tiff.read_tiff(content, tags, pages)
    except tiff.NoCodec:
        # Without imagecodecs, Pillow can still read deep grey images.
        with Image.open(io.BytesIO(content), formats=("TIFF",)) as file:
            if len(pages) == 1 and file.mode.startswith(("F", "I;16")):
                file.seek(pages[0])
                return _grey_values(file)._replace(inverted=tags.photometric == 0)
        raise


def _raw_dicom(content: bytes, reading: Reading, page: int) -> Raw:
    count = dicom.frame_count(content)
    pages = _chosen_pages(count, 1, reading, page)
    frames = [dicom.read_dicom(content, number) for number in pages]
    if len(frames) == 1:
        return frames[0]
    values = np.concatenate([frame.values for frame in frames], axis=2)
    return frames[0]._replace(values=values, grey=False, colour=False)


def _chosen_pages(count: int, samples: int, reading: Reading, page: int) -> range:
    """Pages of a file to read, by --pages."""
    if count > 1 and reading.pages is None:
        number = f"more than {MOST_PAGES:,}" if count > MOST_PAGES else f"{count:,}"
        raise ValueError(f"it has {number} pages; give --pages first, each or channels")
    if reading.pages != "channels":
        return range(page, page + 1)
    if count * samples > MOST_CHANNELS:
        raise ValueError(f"its pages have more than {MOST_CHANNELS} channels")
    return range(count)


def _raw_png(content: bytes) -> Raw:
    """Read a PNG of 16 bits; Pillow would reduce colours to 8 bits."""
    with Image.open(io.BytesIO(content), formats=("PNG",)) as file:
        _check_pixels(file.width * file.height)
        if file.mode.startswith("I"):
            return _grey_values(file)
        orientation = file.getexif().get(0x0112, 1)
    values = tiff.upright(_png_values(content), orientation)
    # Drop alpha, the second or fourth channel, like in images of 8 bits.
    colours = 1 if values.shape[2] < 3 else 3
    values, span = values[..., :colours], type_range(values.dtype)
    return Raw(values, span, grey=colours == 1, colour=colours == 3)


def _png_values(content: bytes) -> np.ndarray:
    """Values (H, W, C) of a PNG, by the only available decoder for 16 bits."""
    import torch

    try:
        from torchvision.io import ImageReadMode, decode_png
    except ImportError:
        raise ValueError("it has 16 bits in colour; convert to TIFF") from None
    stored = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    planes = decode_png(stored, ImageReadMode.UNCHANGED).numpy()  # (C, H, W)
    return planes.transpose(1, 2, 0)


def _grey_values(file: Image.Image) -> Raw:
    """Grey values by Pillow; undo the scaling of PGM files."""
    white = _white(file)
    values = np.asarray(ImageOps.exif_transpose(file))[..., None]
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    if white:
        values = np.rint(values * (white / 65535)).astype(np.uint16)
        return Raw(values, (0.0, float(white)), grey=True)
    return Raw(values, type_range(values.dtype), grey=True)


def _white(file: Image.Image) -> int:
    """White value in the header of a PPM or PGM file; 0 for other files.

    Call before decoding: Pillow then drops the header.
    """
    if file.format != "PPM" or file.mode == "F":
        return 0
    arguments = getattr(file, "tile")[0][3]  # noqa: B009  Unknown to mypy.
    if isinstance(arguments, tuple) and isinstance(arguments[1], int):
        return arguments[1] or 65535
    return 65535 if file.mode.startswith("I") else 255


def _with_channels(pixels: np.ndarray, channels: int, colour: bool) -> np.ndarray:
    """Convert pixels to `channels`: grey to three equal channels, colours to grey."""
    found = pixels.shape[2]
    if found == channels:
        return pixels
    if found == 1 and channels == 3:
        return np.repeat(pixels, 3, axis=2)
    if not colour or channels not in MODES:
        raise ValueError(
            f"it has {found} channels, expected {channels}; give --channels {found}"
        )
    if channels == 3:
        return pixels[..., :3]  # without alpha
    luma = (pixels[..., :3].astype(np.int64) @ LUMA + 2**15) >> 16
    return luma.astype(pixels.dtype)[..., None]


def fitted(pixels: np.ndarray, size: int | None) -> np.ndarray:
    """Pixels (H, W, C) with the shorter side resized to `size` and the centre cropped.

    Without a size pixels are returned unchanged.
    """
    if size is None:
        return pixels
    if pixels.dtype != np.uint8 or pixels.shape[2] not in MODES:
        planes = [_fitted_plane(plane, size) for plane in np.moveaxis(pixels, 2, 0)]
        return np.stack(planes, axis=2).astype(pixels.dtype)
    image = Image.fromarray(pixels if pixels.shape[2] == 3 else pixels[..., 0])
    return np.asarray(_fitted(image, size)).reshape(size, size, pixels.shape[2])


def _fitted_plane(plane: np.ndarray, size: int) -> np.ndarray:
    """One channel of any type; Pillow resizes 8 bits and floats."""
    if plane.dtype != np.uint8:
        plane = plane.astype(np.float32)
    return np.rint(np.asarray(_fitted(Image.fromarray(plane), size)))


def _fitted(image: Image.Image, size: int) -> Image.Image:
    height, width, top, left = resized_shape(image.height, image.width, size)
    if (width, height) != image.size:
        image = image.resize((width, height), Image.Resampling.BILINEAR)
    return image.crop((left, top, left + size, top + size))


def _check_pixels(count: int) -> None:
    if count > MOST_PIXELS:
        raise TooManyPixels(MOST_PIXELS)


def reason_of(error: Exception) -> str:
    """Text for an error of a decoder."""
    match error:
        case UnidentifiedImageError():
            return f"it is none of {', '.join(FORMATS)}"
        case Image.DecompressionBombError() | Image.DecompressionBombWarning():
            return str(TooManyPixels())
        case OSError(strerror=str(words)):
            return words
    return str(error) or type(error).__name__


def _convert(image: Image.Image, mode: str) -> Image.Image:
    if image.mode == "P" and "transparency" in image.info:
        image = image.convert("RGBA")  # avoids a warning; same pixels
    return image.convert(mode)
