"""DICOM files: only the values of images.

furlkit reads only the tags needed for pixels. Messages, warnings and logs of pydicom
are dropped: they may quote tags (names, dates, identifiers).
"""

import io
import logging
import struct
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from furlkit.data.sets.window import (
    MOST_PIXELS,
    Curve,
    Range,
    Raw,
    Refused,
    TooManyPixels,
)

warnings.filterwarnings("ignore", module="pydicom|pylibjpeg|openjpeg|libjpeg")
for name in ("pydicom", "pylibjpeg"):
    logging.getLogger(name).propagate = False

PIXELS = ("PixelData", "FloatPixelData", "DoubleFloatPixelData")
TAGS = (
    *PIXELS, "Rows", "Columns", "SamplesPerPixel", "PhotometricInterpretation",
    "PlanarConfiguration", "NumberOfFrames", "BitsAllocated", "BitsStored", "HighBit",
    "PixelRepresentation", "ExtendedOffsetTable", "ExtendedOffsetTableLengths",
    "ModalityLUTSequence", "RescaleIntercept", "RescaleSlope", "WindowCenter",
    "WindowWidth", "VOILUTFunction", "VOILUTSequence", "SharedFunctionalGroupsSequence",
    "PerFrameFunctionalGroupsSequence",
)  # fmt: skip
# These files are inflated completely before a size is known.
DEFLATED = b"1.2.840.10008.1.2.1.99"
EXTRA = "it is a DICOM file; read it after: pip install 'furlkit[dicom]'"


def is_dicom(content: bytes) -> bool:
    """Return True for DICOM content, independent of the file name."""
    return content[128:132] == b"DICM"


def frame_count(content: bytes) -> int:
    """The number of frames, from the header."""
    return _frames(_opened(content, stop_before_pixels=True))


def read_dicom(content: bytes, frame: int) -> Raw:
    """One frame, with the modality's values: (H, W, C)."""
    opened = _opened(content)
    _check_size(opened)
    try:
        stored = _stored(opened, frame)
        values, span = _of_modality(opened, stored, frame)
        scope = _scoped(opened, frame, "FrameVOILUTSequence")
        little = opened.file_meta.TransferSyntaxUID.is_little_endian
        window = _window(scope) or _table(scope, "<" if little else ">")
        kind = str(opened.PhotometricInterpretation)
    except Refused:
        raise
    except Exception as error:  # The text may quote tags.
        raise _unreadable(error) from None
    return Raw(
        values, span, window, inverted=kind == "MONOCHROME1",
        grey=values.shape[2] == 1, colour=values.shape[2] == 3,
    )  # fmt: skip


def _opened(content: bytes, stop_before_pixels: bool = False) -> Any:
    try:
        import pydicom
    except ImportError:
        raise Refused(EXTRA) from None
    if DEFLATED in content:
        raise Refused("it is a deflated DICOM file, expected another transfer syntax")
    try:
        return pydicom.dcmread(
            io.BytesIO(content), specific_tags=list(TAGS),
            stop_before_pixels=stop_before_pixels,
        )  # fmt: skip
    except Exception as error:  # The text may quote tags.
        raise _unreadable(error) from None


def _unreadable(error: Exception) -> Refused:
    return Refused(
        f"it is a DICOM file that pydicom cannot decode ({type(error).__name__}); it may "
        "be damaged, or compressed in a way that needs: pip install 'furlkit[dicom]'"
    )


def _frames(opened: Any) -> int:
    try:
        return max(int(opened.get("NumberOfFrames") or 1), 1)
    except Exception:
        raise Refused("its number of frames is not a number") from None


def _check_size(opened: Any) -> None:
    """Refuse an absurd size, or a size beyond the file, before decoding."""
    try:
        rows, columns, samples, bits = (
            int(opened[tag].value)
            for tag in ("Rows", "Columns", "SamplesPerPixel", "BitsAllocated")
        )
    except Exception:
        raise Refused("it is a DICOM file without an image") from None
    values = rows * columns * samples
    if values < 1 or samples not in (1, 3):
        raise Refused(f"it is a DICOM file of {rows} x {columns} x {samples} values")
    if values > MOST_PIXELS:
        raise TooManyPixels
    held = max(len(opened.get(tag, b"")) for tag in PIXELS)
    if not held:
        raise Refused("it is a DICOM file without an image")
    # 4:2:2 subsampling stores two of three values.
    least = 2 * values * _frames(opened) * bits // 24
    if held < least and not _is_compressed(opened):
        raise Refused("it is truncated")


def _is_compressed(opened: Any) -> bool:
    return bool(opened.file_meta.TransferSyntaxUID.is_compressed)


def _stored(opened: Any, frame: int) -> np.ndarray:
    """The stored values (H, W, C) of a frame; YBR becomes RGB."""
    from pydicom.pixels import pixel_array

    kind = str(opened.PhotometricInterpretation)
    if not kind.startswith(("MONOCHROME", "RGB", "YBR")):
        raise Refused("its colours are a palette, expected grey or RGB")
    if _is_compressed(opened):
        _check_codestream(opened, frame)
    values = pixel_array(opened, index=frame)
    return values[..., None] if values.ndim == 2 else values


def _check_codestream(opened: Any, frame: int) -> None:
    """Refuse frames with another size than the header: decoders trust the frame."""
    from pydicom.encaps import get_frame

    held = get_frame(opened.PixelData, frame, number_of_frames=_frames(opened))
    expected = int(opened.Rows), int(opened.Columns)
    for found in _codestream_sizes(held[:65536]):
        if found != expected:
            raise Refused(
                f"its compressed frame has {found[0]} x {found[1]} pixels, its header says "
                f"{expected[0]} x {expected[1]}"
            )


def _codestream_sizes(start: bytes) -> Iterator[tuple[int, int]]:
    """Height and width in a JPEG 2000 or JPEG frame."""
    at = start.find(b"\xff\x4f\xff\x51")
    if at >= 0 and len(start) >= at + 16:
        width, height = struct.unpack_from(">II", start, at + 8)
        yield height, width
        return
    place = 2
    while start[:2] == b"\xff\xd8" and place + 9 <= len(start) and start[place] == 0xFF:
        marker, length = start[place + 1], int.from_bytes(start[place + 2 : place + 4])
        if marker in (*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xD0), 0xF7):
            yield struct.unpack_from(">HH", start, place + 5)
            return
        place += 2 + length


def _scoped(opened: Any, frame: int, group: str) -> Any:
    """Dataset with a frame's transformation: per frame, shared, or the whole file."""
    for kind, number in (("PerFrame", frame), ("Shared", 0)):
        groups = opened.get(f"{kind}FunctionalGroupsSequence") or ()
        if number < len(groups) and groups[number].get(group):
            return groups[number].get(group)[0]
    return opened


def _of_modality(
    opened: Any, stored: np.ndarray, frame: int
) -> tuple[np.ndarray, Range | None]:
    """Apply the modality LUT or slope and intercept, for Hounsfield units."""
    if opened.get("ModalityLUTSequence"):
        from pydicom.pixels import apply_modality_lut

        return apply_modality_lut(stored, opened), None
    scope = _scoped(opened, frame, "PixelValueTransformationSequence")
    slope = float(scope.get("RescaleSlope") or 1)
    intercept = float(scope.get("RescaleIntercept") or 0)
    bits, signed = int(opened.BitsStored), bool(opened.get("PixelRepresentation"))
    low = -(2 ** (bits - 1)) if signed else 0
    high = low + 2**bits - 1
    if stored.dtype.kind == "f":
        return stored, None
    if (slope, intercept) != (1, 0):
        # Whole numbers stay whole, such as Hounsfield units of most scanners.
        whole = slope.is_integer() and intercept.is_integer() and bits <= 16
        if whole and max(abs(slope), abs(intercept) / 2**16) < 2**13:
            stored = stored.astype(np.int32) * int(slope) + int(intercept)
        else:
            stored = stored.astype(np.float64) * slope + intercept
    ends = low * slope + intercept, high * slope + intercept
    return stored, (min(ends), max(ends))


def _window(scope: Any) -> Range | Curve | None:
    """The file's first window; None without a window, or for an impossible window."""
    centre, width = (_first(scope.get(tag)) for tag in ("WindowCenter", "WindowWidth"))
    form = str(scope.get("VOILUTFunction") or "LINEAR")
    if centre is None or width is None:
        return None
    if form == "SIGMOID":
        return _sigmoid(centre, width) if 0 < width < 1e30 > abs(centre) else None
    if form not in ("LINEAR", "LINEAR_EXACT"):
        return None
    if form == "LINEAR":  # PS3.3 C.11.2.1.2.1
        centre, width = centre - 0.5, width - 1
    low, high = centre - width / 2, centre + width / 2
    return (low, high) if -1e30 < low < high < 1e30 else None


def _sigmoid(centre: float, width: float) -> Curve:
    """PS3.3 C.11.2.1.3.1: 1 / (1 + exp(-4 (x - c) / w))."""

    def curve(values: np.ndarray) -> np.ndarray:
        slope = -4 * (values.astype(np.float64) - centre) / width
        return 1 / (1 + np.exp(slope.clip(-700, 700)))

    return curve


def _table(scope: Any, order: str) -> Curve | None:
    """The first VOI LUT (PS3.3 C.11.2.1.1): values beyond the table have an end of it."""
    if not scope.get("VOILUTSequence"):
        return None
    item = scope.VOILUTSequence[0]
    count, first, bits = (int(number) for number in item.LUTDescriptor)
    count = count % 2**16 or 2**16
    stored = item.LUTData
    if isinstance(stored, bytes):
        kind = "u1" if len(stored) == count else f"{order}u2"
        stored = np.frombuffer(stored, kind)
    outputs = np.asarray(stored, np.float64).reshape(-1)[:count]
    if len(outputs) < count or not 8 <= bits <= 16:
        raise Refused("the VOI LUT lacks promised entries")
    fractions = (outputs / (2**bits - 1)).clip(0, 1)

    def curve(values: np.ndarray) -> np.ndarray:
        places = np.rint(values.astype(np.float64) - first).clip(0, count - 1)
        return fractions[places.astype(np.int64)]

    return curve


def _first(value: Any) -> float | None:
    try:
        return float(value if isinstance(value, int | float | str) else value[0])
    except (TypeError, ValueError, IndexError):
        return None
