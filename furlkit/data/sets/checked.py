"""Examine every file of a folder: format, type, range, channels, pages, copies."""

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit import console
from furlkit.data.sets.folder import FolderIndex, in_blocks, list_folder
from furlkit.data.sets.ranges import Span, span_of
from furlkit.data.sets.window import Reading, check_values

# Accepts every file that some options can read.
ANY = Reading(pages="first", slices="axial")
PAGES = Reading(pages="each", slices="axial")


class Examined(NamedTuple):
    """Facts of one file; `size` is width and height, `digest` a hash of the values."""

    format: str
    size: tuple[int, int]
    channels: int
    pages: int
    animation: bool
    digest: str
    type: str
    span: Span | None
    low: float
    high: float


@dataclass(frozen=True)
class Checked:
    """Result of decoding every image of a folder.

    `broken` maps unreadable paths to reasons, `skipped` describes files that are not
    images. `sizes` counts images by (width, height), other counters by values of
    `Examined`. `ranges` holds the least and greatest value of each type, `digests` the
    files of each content.
    """

    images: int = 0
    broken: dict[str, str] = field(default_factory=dict)
    skipped: str = ""
    sizes: Counter[tuple[int, int]] = field(default_factory=Counter)
    formats: Counter[str] = field(default_factory=Counter)
    types: Counter[str] = field(default_factory=Counter)
    channels: Counter[int] = field(default_factory=Counter)
    pages: Counter[int] = field(default_factory=Counter)
    animations: Counter[bool] = field(default_factory=Counter)
    ranges: dict[str, tuple[float, float]] = field(default_factory=dict)
    spans: list[Span] = field(default_factory=list)
    digests: dict[str, list[str]] = field(default_factory=dict)

    @property
    def grey(self) -> int:
        """Number of grey images."""
        return self.channels[1]

    @property
    def duplicates(self) -> list[list[str]]:
        """Groups of files with equal values."""
        groups = self.digests.values()
        return sorted(sorted(names) for names in groups if len(names) > 1)

    @property
    def proposal(self) -> str | None:
        """Window for all images of more than 8 bits; None without such images."""
        if not self.spans:
            return None
        lows, highs = [s.low for s in self.spans], [s.high for s in self.spans]
        types = tuple(sorted({kind for span in self.spans for kind in span.types}))
        ranges = {span.range for span in self.spans}
        common = ranges.pop() if len(ranges) == 1 else None
        whole = Span(min(lows), max(highs), types, common)
        return "full" if whole.is_full else whole.proposal


def checked_folder(root: Path) -> Checked:
    """Decode every image of a folder without storing pixels."""
    listing = list_folder(root)
    broken, paths = dict(listing.broken), sorted(listing.images)
    found, done = Checked(broken=broken, skipped=listing.skipped), 0
    digests = defaultdict(list)

    def look(name: str) -> Examined | None:
        try:
            return examine(root / name)
        except Exception as error:  # Damaged files make PIL raise many kinds.
            from furlkit.data.sets.decode import reason_of

            broken[name] = reason_of(error)
            return None

    with console.bar(f"checking {root}", len(paths)) as bar:
        for block in in_blocks(look, paths):
            for name, one in zip(paths[done : done + len(block)], block, strict=True):
                if one is not None:
                    _count(found, one)
                    digests[one.digest].append(name)
            bar.reach(done := done + len(block))
    return replace(found, images=found.sizes.total(), digests=dict(digests))


def _count(found: Checked, one: Examined) -> None:
    found.sizes[one.size] += 1
    found.formats[one.format] += 1
    found.types[one.type] += 1
    found.channels[one.channels] += 1
    found.pages[one.pages] += 1
    found.animations[one.animation] += 1
    low, high = found.ranges.get(one.type, (one.low, one.high))
    found.ranges[one.type] = min(low, one.low), max(high, one.high)
    if one.span is not None:
        found.spans.append(one.span)


def broken_images(index: FolderIndex) -> set[str]:
    """Paths of unreadable images."""

    def is_broken(name: str) -> bool:
        try:
            examine(index.root / name, index.read)
        except Exception:  # Damaged files make PIL raise many kinds.
            return True
        return False

    blocks = in_blocks(is_broken, index.paths)
    flags = (flag for block in blocks for flag in block)
    return {name for name, flag in zip(index.paths, flags, strict=True) if flag}


def examine(path: Path, read: Callable[[Path], bytes] | None = None) -> Examined:
    """Decode one file; `read` returns the bytes of an image inside another file."""
    from furlkit.data.sets.decode import (
        format_of,
        is_animation,
        page_count,
        read_file,
        read_raw,
    )

    content = (read or read_file)(path)
    raw = read_raw(content, 3, ANY)
    check_values(raw.values)
    height, width, channels = raw.values.shape
    low, high = float(raw.values.min()), float(raw.values.max())
    # Equal for grey images with one and with three channels.
    digest = image_hash(raw.values[..., :1] if raw.grey else raw.values)
    return Examined(
        format_of(content), (width, height), 1 if raw.grey else channels,
        page_count(content, PAGES), is_animation(content), digest,
        str(raw.values.dtype), span_of([raw]), low, high,
    )  # fmt: skip


def image_hash(image: np.ndarray) -> str:
    """Hash of the values of one image (H, W, C)."""
    head = repr((image.shape, image.dtype.str)).encode()
    return hashlib.sha256(head + np.ascontiguousarray(image).tobytes()).hexdigest()
