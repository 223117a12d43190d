"""How tensors lie in a safetensors container: names, types, places."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

# BF16 is left out on purpose: numpy has no such type and furlkit never writes one.
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


@dataclass(frozen=True)
class Entry:
    """One tensor of a container: its type, shape and place in the body."""

    name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    start: int = 0

    @property
    def size(self) -> int:
        """Bytes."""
        return math.prod(self.shape) * self.dtype.itemsize

    @property
    def end(self) -> int:
        """The first byte behind it."""
        return self.start + self.size


def place(entries: Iterable[Entry]) -> list[Entry]:
    """Give each tensor its place: wide types first, then by name, without holes.

    Wide types first keeps every tensor aligned, as the safetensors library does it.
    """
    placed, start = [], 0
    for entry in sorted(entries, key=lambda e: (-e.dtype.itemsize, e.name)):
        placed.append(Entry(entry.name, entry.dtype, entry.shape, start))
        start += entry.size
    return placed


def describe(entry: Entry) -> dict[str, Any]:
    """The header's words for one tensor; never any that could not be read again."""
    words = {
        "dtype": NAMES[entry.dtype],
        "shape": list(entry.shape),
        "data_offsets": [entry.start, entry.end],
    }
    _entry(entry.name, words)
    return words


def understand(table: dict[str, Any], body_size: int) -> list[Entry]:
    """Check the header's words for all tensors and give them in the body's order.

    Raises ValueError with a sentence that says what is wrong.
    """
    entries = [_entry(name, words) for name, words in table.items()]
    entries.sort(key=lambda e: (e.start, e.end, e.name))
    expected = 0
    for entry in entries:
        if entry.start != expected:
            raise ValueError(f"{entry.name} starts at {entry.start}, not at {expected}")
        expected = entry.end
    if expected > body_size:
        raise ValueError(f"truncated: {expected} bytes of tensors, {body_size} there")
    if expected < body_size:
        raise ValueError(f"{body_size - expected} bytes follow the last tensor")
    return entries


def _entry(name: str, words: Any) -> Entry:
    _check_name(name)
    if not isinstance(words, dict) or set(words) != {"dtype", "shape", "data_offsets"}:
        raise ValueError(f"{name}: the header does not give dtype, shape, data_offsets")
    dtype, shape, offsets = words["dtype"], words["shape"], words["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPES:
        raise ValueError(
            f"{name}: has the type {str(dtype)[:60]}; furlkit knows {_known()}"
        )
    if not _naturals(shape) or len(shape) > 8 or not _countable(shape):
        raise ValueError(f"{name}: has the shape {str(shape)[:60]}")
    if not _naturals(offsets) or len(offsets) != 2:
        raise ValueError(f"{name}: has the offsets {str(offsets)[:60]}")
    entry = Entry(name, DTYPES[dtype], tuple(shape), offsets[0])
    if entry.end != offsets[1]:
        raise ValueError(
            f"{name}: its shape needs {entry.size} bytes, "
            f"its offsets span {offsets[1] - offsets[0]}"
        )
    return entry


def _check_name(name: str) -> None:
    if not name or len(name) > 300 or not name.isprintable():
        raise ValueError(f"a tensor has the unusable name {name[:60]!r}")
    if ".." in name or "/" in name or "\\" in name:
        raise ValueError(
            f"a tensor has the name {name[:60]!r}, which looks like a path"
        )


def _naturals(values: Any) -> bool:
    return isinstance(values, list) and all(
        type(value) is int and 0 <= value < 2**63 for value in values
    )


def _countable(shape: list[int]) -> bool:
    # numpy refuses what it could not count even where another dimension is 0.
    return math.prod(max(size, 1) for size in shape) < 2**60


def _known() -> str:
    return ", ".join(DTYPES)
