"""Measured ranges of values, and the suggested window."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit import console
from furlkit.data.sets.window import Raw, Reading, check_values, parse_window
from furlkit.errors import InputError

SAMPLE = 32  # Number of files measured in a folder.
FEW = 32  # Fewer grey levels mean an unsuitable window.


class Span(NamedTuple):
    """Least and greatest value of some images, types and range of the types."""

    low: float
    high: float
    types: tuple[str, ...]
    range: tuple[float, float] | None
    has_window: bool = False  # Windows in the files, such as DICOM's.

    @property
    def is_full(self) -> bool:
        """Return True if the values use the whole range of the type."""
        return self.range == (self.low, self.high)

    @property
    def words(self) -> str:
        """Types and values, for messages."""
        types = " and ".join(self.types)
        return f"{types} values from {_pair(self.low, self.high, ' to ')}"

    @property
    def proposal(self) -> str:
        """Window around all values: from 0 to 2^k - 1, or the range of the values."""
        low, high = min(self.low, 0.0), self.high
        whole = all(kind.startswith(("uint", "int")) for kind in self.types)
        if low == 0 and whole:
            high = 2.0 ** int(high).bit_length() - 1
        elif low == 0 and high <= 1:
            high = 1.0
        return _pair(low, high if high > low else low + 1)


def span_of(images: Iterable[Raw]) -> Span | None:
    """Range of the images with more than 8 bits; None without such images."""
    lows, highs, types, ranges, windows = [], [], set(), set(), []
    for raw in images:
        if raw.deep:
            windows.append(raw.window is not None)
            check_values(raw.values)
            lows.append(float(raw.values.min()))
            highs.append(float(raw.values.max()))
            types.add(str(raw.values.dtype))
            ranges.add(raw.range)
    if not lows:
        return None
    common = ranges.pop() if len(ranges) == 1 else None
    known = tuple(sorted(types)), common, all(windows)
    return Span(min(lows), max(highs), *known)


def sample_of(paths: Sequence[str]) -> list[str]:
    """Evenly spaced paths, with the first and the last."""
    places = np.linspace(0, len(paths) - 1, min(SAMPLE, len(paths)))
    return [paths[int(place)] for place in places]


class Survey(NamedTuple):
    """Result of a sample of a folder: reading, and channels of the images."""

    reading: Reading
    channels: int


def survey(
    root: Path,
    paths: Sequence[str],
    reading: Reading,
    channels: int | None = None,
    read: Callable[[Path], bytes] | None = None,
) -> Survey:
    """Examine a sample of a folder, for a missing window or missing channels.

    Images that use the whole range of their type have the window `full`. For other
    images without a window, the error proposes a window. A warning names a given window
    that leaves few grey levels. `read` returns the bytes of an image inside another
    file.
    """
    from furlkit.data.sets.decode import read_file, read_raw

    seen: list[int] = []

    def sample() -> Iterator[Raw]:
        for name in sample_of(paths):
            with suppress(Exception):  # Decoding later reports broken images.
                content = (read or read_file)(root / name)
                raw = read_raw(content, channels or 3, reading)
                seen.append(1 if raw.grey else 3 if raw.colour else raw.values.shape[2])
                yield raw

    span = span_of(sample())
    where = f"{root}: measured {len(seen)} of {len(paths):,} files:"
    if reading.window is None:
        reading = window_for(where, span, reading)
    elif span is not None:
        warn_of_few_levels(where, span, reading)
    return Survey(reading, channels or max(seen, default=3))


def window_for(where: str, span: Span | None, reading: Reading) -> Reading:
    """Reading for images with these values; `where` begins messages."""
    if span is None:
        return reading
    if span.is_full:
        console.info(
            f"{where} {span.words}, the whole range; --window full maps them to grey"
        )
        return replace(reading, window="full")
    kind = "a type without a range"
    if span.range is not None:
        kind = f"their type goes from {_pair(*span.range, ' to ')}"
    raise InputError(
        f"{where} {span.words}, {kind}; furlkit does not guess which values are black "
        f"and white: give pack or init --window {span.proposal} (or percentile 1,99"
        f"{', or dicom, the window of the files' if span.has_window else ''})"
    )


def warn_of_few_levels(where: str, span: Span, reading: Reading) -> None:
    """Warn about a window far larger than the values, or outside the values."""
    window = parse_window(str(reading.window))
    limits = span.range if window.kind == "full" else (window.low, window.high)
    if window.kind not in ("full", "values") or limits is None:
        return
    low, high = limits
    share = max(0.0, min(high, span.high) - max(low, span.low)) / (high - low)
    levels = int(share * np.iinfo(reading.dtype).max) + 1
    if levels < FEW and span.low < span.high:
        console.warn(
            f"{where} {span.words}; --window {window} leaves {levels} grey "
            f"levels at most; --window {span.proposal} keeps more"
        )


def _pair(low: float, high: float, between: str = ",") -> str:
    return f"{low:.10g}{between}{high:.10g}"
