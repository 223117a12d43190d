"""Layout of tensors in a safetensors file: names, types, positions."""

import math
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from furlkit.files.container.header import canonical

# BF16 is missing on purpose: numpy has no such type and furlkit never writes it.
DTYPES = {
    "BOOL": np.dtype("bool"),
    "U8": np.dtype("uint8"),
    "I8": np.dtype("int8"),
    "I16": np.dtype("<i2"),
    "U16": np.dtype("<u2"),
    "I32": np.dtype("<i4"),
    "U32": np.dtype("<u4"),
    "I64": np.dtype("<i8"),
    "U64": np.dtype("<u8"),
    "F16": np.dtype("<f2"),
    "F32": np.dtype("<f4"),
    "F64": np.dtype("<f8"),
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}
MOST_DIMENSIONS, LONGEST_NAME = 8, 300


class Entry(NamedTuple):
    """One tensor of a file: type, shape and position in the body."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int = 0

    @property
    def size(self) -> int:
        """Number of bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        """First byte behind the tensor."""
        return self.start + self.size


def place(entries: Iterable[Entry]) -> list[Entry]:
    """Place the tensors without gaps: wide types first, then by name.

    Wide types first keeps every tensor aligned, as the safetensors library does.
    """
    return _chained(sorted(entries, key=lambda e: (-e.dtype.itemsize, e.name)))


def located(parts: Iterable[tuple[str, str, Sequence[int]]]) -> list[Entry]:
    """Return entries from names, types and shapes in the order of the body."""
    entries = []
    for name, dtype, shape in parts:
        if dtype not in DTYPES:
            known = ", ".join(DTYPES)
            raise ValueError(f"{name[:60]} has the type {dtype}; furlkit reads {known}")
        entries.append(Entry(name, DTYPES[dtype], tuple(shape)))
    # Empty tensors share a position; the library lists them in any order.
    return sorted(_chained(entries), key=lambda e: (e.start, e.end, e.name))


def _chained(entries: Iterable[Entry]) -> list[Entry]:
    """Check the entries, and start each tensor at the end of the previous tensor."""
    placed, start = [], 0
    for entry in entries:
        _check(entry)
        placed.append(entry._replace(start=start))
        start += entry.size
    return placed


def table(entries: Iterable[Entry], metadata: dict[str, str]) -> bytes:
    """Return furlkit's JSON text for these tensors, with sorted keys."""
    described = {
        entry.name: {
            "dtype": NAMES[entry.dtype],
            "shape": entry.shape,
            "data_offsets": (entry.start, entry.end),
        }
        for entry in entries
    }
    words: dict[str, Any] = {"__metadata__": metadata, **described}
    return canonical(words).encode()


def _check(entry: Entry) -> None:
    """Raise ValueError for entries that only the safetensors library accepts."""
    name, shape = entry.name, entry.shape
    if not name or len(name) > LONGEST_NAME or not name.isprintable():
        raise ValueError(f"a tensor has the unusable name {name[:60]!r}")
    if ".." in name or "/" in name or "\\" in name:
        raise ValueError(f"a tensor's name, {name[:60]!r}, looks like a path")
    # numpy refuses sizes that overflow, even if another dimension is 0.
    count = math.prod(shape) or math.prod(max(size, 1) for size in shape)
    if len(shape) > MOST_DIMENSIONS or count >= 2**60:
        raise ValueError(f"{name} has the shape {str(list(shape))[:60]}")
