"""Windows: black and white values of an image with more than 8 bits."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from furlkit.errors import InputError, UsageError

FORMS = "LO,HI, percentile P,Q, full or dicom"
MOST_PIXELS = 89_478_485  # Pillow's limit for warnings
MOST_PAGES = 4096  # of a file
MOST_CHANNELS = 32
PAGES = ("first", "each", "channels")
Range = tuple[float, float]
Curve = Callable[[np.ndarray], np.ndarray]  # values to 0 (black) to 1 (white)
# Values that are converted at a time, so that the float64 copy stays small.
PIECE = 2**20


class Window(NamedTuple):
    """`low` is black and `high` is white, in values or in percentiles of each image.

    `kind` is values, percentile, full (the range of the type) or dicom (the window in
    the file).
    """

    kind: str
    low: float = 0.0
    high: float = 0.0

    def __str__(self) -> str:
        numbers = f"{self.low:.10g},{self.high:.10g}"
        forms = {"values": numbers, "percentile": f"percentile {numbers}"}
        return forms.get(self.kind, self.kind)


def parse_window(text: str) -> Window:
    """Read --window; refuse a window without extent."""
    kind, _, numbers = text.strip().rpartition(" ")
    if text.strip() in ("full", "dicom"):
        return Window(text.strip())
    try:
        low, high = map(float, numbers.split(","))
    except ValueError:
        raise UsageError(f"--window {text}: expected {FORMS}") from None
    if kind not in ("", "percentile"):
        raise UsageError(f"--window {text}: expected {FORMS}")
    if not -1e30 < low < high < 1e30:
        raise UsageError(f"--window {text}: expected black (LO) below white (HI)")
    if kind and not 0 <= low < high <= 100:
        raise UsageError(f"--window {text}: expected percentiles from 0 to 100")
    return Window(kind or "values", low, high)


@dataclass(frozen=True)
class Reading:
    """Conversion of the values in image files to pixels.

    `window` is None for images of 8 bits. Without `pages` a file with several pages is
    refused, and without `slices` a volume. `depth` is the number of bits of the pixels,
    8 or 16.
    """

    window: str | None = None
    pages: str | None = None
    slices: str | None = None
    depth: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "depth", int(self.depth or 8))
        if self.window is not None:
            object.__setattr__(self, "window", str(parse_window(self.window)))

    @property
    def several(self) -> bool:
        """True if files may hold several images."""
        return self.pages == "each" or self.slices is not None

    @property
    def dtype(self) -> np.dtype:
        """Type of the pixels."""
        return np.dtype(np.uint8 if self.depth == 8 else np.uint16)

    def facts(self) -> dict[str, Any]:
        """Settings that differ from the defaults, for headers."""
        usual = vars(Reading())
        return {key: value for key, value in vars(self).items() if value != usual[key]}

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any] | None, path: Any) -> "Reading":
        """Reading described by the header of a file."""
        try:
            found = cls(**(facts or {}))
        except (TypeError, ValueError, AttributeError, UsageError) as error:
            raise InputError(f"{path}: its window cannot be read ({error})") from error
        if found.depth not in (8, 16) or found.pages not in (None, *PAGES):
            raise InputError(f"{path}: its images were read in an unknown way: {facts}")
        return found


AS_STORED = Reading()


class Raw(NamedTuple):
    """Values of one upright image: (H, W, C) of any type.

    `range` is the range of the type, None for floats. `window` is the file's own: black
    and white, or a curve for a window that is no straight line.
    Low values of an `inverted` image are white. `colour` images are RGB; an image that
    is neither `grey` nor that has other channels.
    """

    values: np.ndarray
    range: Range | None = None
    window: Range | Curve | None = None
    inverted: bool = False
    grey: bool = False
    colour: bool = False

    @property
    def deep(self) -> bool:
        """True if a window determines the pixels."""
        return self.values.dtype != np.uint8


class Refused(ValueError):
    """Reason of furlkit to refuse an image; the text quotes no tag of the file."""


class TooManyPixels(Refused):
    """An image has more pixels than furlkit decodes."""

    def __init__(self, most: int = MOST_PIXELS):
        super().__init__(f"it has more than {most:,} pixels")


class NeedsWindow(InputError):
    """An image has more than 8 bits, and no window was given."""


def type_range(dtype: np.dtype) -> Range | None:
    """Least and greatest value of an integer type; None for floats."""
    if dtype.kind not in "iu":
        return None
    limits = np.iinfo(dtype)
    return float(limits.min), float(limits.max)


def check_values(values: np.ndarray) -> None:
    """Refuse values that no window can map: NaN, infinity, complex numbers."""
    if values.dtype.kind not in "iuf":
        raise ValueError(f"its values are {values.dtype}, expected integers or floats")
    if values.dtype.kind == "f":
        bad = values.size - np.count_nonzero(np.isfinite(values))
        if bad:
            raise ValueError(f"{bad:,} of its values are NaN or infinite")


def develop(raw: Raw, reading: Reading) -> np.ndarray:
    """Pixels (H, W, C) of the reading's type: 0 is black, the greatest is white."""
    if not raw.deep:
        pixels = deepened(raw.values, reading)
        return np.iinfo(pixels.dtype).max - pixels if raw.inverted else pixels
    check_values(raw.values)
    if reading.window is None:
        raise NeedsWindow(f"its values are {raw.values.dtype}; give --window {FORMS}")
    limits = _limits(raw, parse_window(reading.window))
    if callable(limits):
        pixels = curved(raw.values, limits, reading.dtype)
    else:
        pixels = windowed(raw.values, *limits, reading.dtype)
    return np.iinfo(pixels.dtype).max - pixels if raw.inverted else pixels


def deepened(pixels: np.ndarray, reading: Reading) -> np.ndarray:
    """Convert pixels of 8 bits to the reading's type; 255 becomes 65535."""
    if pixels.dtype == reading.dtype:
        return pixels
    return pixels.astype(np.uint16) * np.uint16(257)


def in_bytes(pixels: np.ndarray) -> np.ndarray:
    """Pixels of 8 bits, for pictures."""
    if pixels.dtype == np.uint8:
        return pixels
    return np.rint(pixels / 257).astype(np.uint8)


def windowed(
    values: np.ndarray, low: float, high: float, dtype: np.dtype
) -> np.ndarray:
    """Map `low` to 0 and `high` to the greatest value of a type; clip other values."""
    if values.dtype in (np.uint16, np.int16):
        # Common case: a table of all 65,536 values is faster than arithmetic.
        table = _table(low, high, values.dtype.str, dtype.str)
        return table[np.ascontiguousarray(values).view(np.uint16)]
    return _in_pieces(values, lambda piece: _scaled(piece, low, high, dtype), dtype)


def curved(values: np.ndarray, curve: Curve, dtype: np.dtype) -> np.ndarray:
    """Map values by a curve from 0 to 1 to the whole range of a type."""
    top = np.iinfo(dtype).max
    return _in_pieces(values, lambda piece: np.rint(curve(piece) * top), dtype)


def _in_pieces(values: np.ndarray, function: Curve, dtype: np.dtype) -> np.ndarray:
    pixels = np.empty(values.shape, dtype)
    flat, out = np.ascontiguousarray(values).reshape(-1), pixels.reshape(-1)
    for start in range(0, flat.size, PIECE):
        piece = slice(start, start + PIECE)
        out[piece] = function(flat[piece])
    return pixels


def _limits(raw: Raw, window: Window) -> Range | Curve:
    if window.kind == "values":
        return window.low, window.high
    if window.kind == "percentile":
        low, high = np.percentile(raw.values, [window.low, window.high])
        return float(low), float(high)
    if window.kind == "full" and raw.range is not None:
        return raw.range
    if window.kind == "dicom" and raw.window is not None:
        return raw.window
    floats = "its type is float, without a range"
    why = floats if window.kind == "full" else "no window"
    raise ValueError(f"--window {window}: {why}; give --window LO,HI")


@lru_cache(maxsize=16)
def _table(low: float, high: float, of: str, dtype: str) -> np.ndarray:
    values = np.arange(2**16, dtype=np.uint16).view(of)
    return _scaled(values, low, high, np.dtype(dtype))


def _scaled(values: np.ndarray, low: float, high: float, dtype: np.dtype) -> np.ndarray:
    top = np.iinfo(dtype).max
    if high <= low:  # An image of one value, by percentiles.
        return np.zeros(values.shape, dtype)
    scaled = (values.astype(np.float64) - low) * top / (high - low)
    return np.rint(scaled).clip(0, top).astype(dtype)
