"""Measured ranges of values, and the window that they suggest."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit import console
from furlkit.data.sets.window import Raw, Reading, check_values, parse_window
from furlkit.errors import InputError

SAMPLE = 32  # Files of a folder that are measured.
FEW = 32  # Grey levels of a window that leaves little of the images.


class Span(NamedTuple):
    """The least and greatest value of some images, their types and the types' range."""

    low: float
    high: float
    types: tuple[str, ...]
    range: tuple[float, float] | None
    has_window: bool = False  # Of the files themselves, as DICOM's.

    @property
    def is_full(self) -> bool:
        """Whether the values use the whole range of their type."""
        return self.range == (self.low, self.high)

    @property
    def words(self) -> str:
        """Types and values, for messages."""
        types = " and ".join(self.types)
        return f"{types} values from {_pair(self.low, self.high, ' to ')}"

    @property
    def proposal(self) -> str:
        """A window that contains all values: from 0 to 2^k - 1, or the range itself."""
        low, high = min(self.low, 0.0), self.high
        whole = all(kind.startswith(("uint", "int")) for kind in self.types)
        if low == 0 and whole:
            high = 2.0 ** int(high).bit_length() - 1
        elif low == 0 and high <= 1:
            high = 1.0
        return _pair(low, high if high > low else low + 1)


def span_of(images: Iterable[Raw]) -> Span | None:
    """The range of the images with more than 8 bits; None without any."""
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
    """What a sample of a folder says: how to read it, and channels of its images."""

    reading: Reading
    channels: int


def survey(
    root: Path,
    paths: Sequence[str],
    reading: Reading,
    channels: int | None = None,
    read: Callable[[Path], bytes] | None = None,
) -> Survey:
    """Look at a sample of a folder, for a window and for channels that are not given.

    Images that use the whole range of their type have the window `full`. A window for
    others must be given: the error proposes one. A warning names a given window that
    leaves few grey levels. `read` gives the bytes of an image that is no file.
    """
    sample = _sample(
        [root / name for name in sample_of(paths)], reading, channels or 3, read
    )
    seen: list[int] = []

    def noted() -> Iterator[Raw]:
        for raw in sample:
            seen.append(1 if raw.grey else 3 if raw.colour else raw.values.shape[2])
            yield raw

    span = span_of(noted())
    where = f"{root}: measured {len(seen)} of {len(paths):,} files:"
    if reading.window is None:
        reading = window_for(where, span, reading)
    elif span is not None:
        warn_of_few_levels(where, span, reading)
    return Survey(reading, channels or max(seen, default=3))


def _sample(
    paths: list[Path],
    reading: Reading,
    channels: int,
    read: Callable[[Path], bytes] | None,
) -> Iterator[Raw]:
    """Some images, one at a time; decoding says which others are broken, and why."""
    from furlkit.data.sets.decode import read_file, read_raw

    for path in paths:
        with suppress(Exception):
            yield read_raw((read or read_file)(path), channels, reading)


def window_for(where: str, span: Span | None, reading: Reading) -> Reading:
    """The reading for images with these values; `where` begins messages."""
    if span is None:
        return reading
    if span.is_full:
        console.info(
            f"{where} {span.words}, the whole range; --window full maps them to grey"
        )
        return replace(reading, window="full")
    kind = "which have no range of their own"
    if span.range is not None:
        kind = f"their type goes from {_pair(*span.range, ' to ')}"
    raise InputError(
        f"{where} {span.words}, {kind}; furlkit does not guess which values are black "
        f"and white: give pack or init --window {span.proposal} (or percentile 1,99"
        f"{', or dicom, the window of the files' if span.has_window else ''})"
    )


def warn_of_few_levels(where: str, span: Span, reading: Reading) -> None:
    """Warn of a window that is far larger than the values, or beside them."""
    window = parse_window(str(reading.window))
    limits = span.range if window.kind == "full" else (window.low, window.high)
    if window.kind not in ("full", "values") or limits is None:
        return
    low, high = limits
    share = max(0.0, min(high, span.high) - max(low, span.low)) / (high - low)
    levels = int(share * np.iinfo(reading.dtype).max) + 1
    if levels < FEW and span.low < span.high:
        console.warn(
            f"{where} {span.words}, of which --window {window} makes {levels} grey "
            f"levels at most; --window {span.proposal} keeps them apart"
        )


def _pair(low: float, high: float, between: str = ",") -> str:
    return f"{low:.10g}{between}{high:.10g}"
