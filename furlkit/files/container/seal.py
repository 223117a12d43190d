"""The two hashes in a file's header, and the checksum that every reader compares.

`content` names a file: the sha256 of the whole file, with zeros for the digits of both
hashes. Computing `content` takes longer than reading the file, so readers compare
`check`: the sha256 of the head (with zeros for the digits of `check`) followed by the
crc32 of each piece of each tensor, in the order of the file. Pieces may be computed in
any order, by several threads, and more than once.

`check` finds every change of the head; and within a piece every single flipped bit,
every pair of flipped bits and every burst of up to 32 bits. Any other change is missed
with a probability of 2^-32 for each damaged piece. `check` does not find a forgery: a
forger can recompute both hashes, or change bytes without changing the crc32; `furlkit
inspect --verify` compares `content` and finds the latter.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Small enough to stay in the cache while being read, checked and summed; large enough
# for threads to spend their time in C, outside Python's lock.
PIECE = 1024 * 1024
UNSEALED = "0" * 64
# Marks before the digits in a head: JSON inside a string of JSON.
MARKS = {"content": b'\\"content\\":\\"', "check": b'\\"check\\":\\"'}


def crcs_of(data: np.ndarray) -> list[int]:
    """Return the crc32 of each piece of a tensor's bytes."""
    view, starts = data.data, starts_in(len(data))
    return [zlib.crc32(view[start : start + PIECE]) for start in starts]


def checksum(head: bytes, crcs: Sequence[int] | np.ndarray) -> str:
    """Return the checksum of a file from the head and the crc32 of every piece."""
    return hashlib.sha256(head + np.asarray(crcs, "<u4").tobytes()).hexdigest()


def with_digits(head: bytes, name: str, old: str, new: str) -> bytes:
    """Replace the digits of a hash in the head of a file."""
    mark = MARKS[name]
    return head.replace(mark + old.encode(), mark + new.encode(), 1)


def bytes_of(array: np.ndarray) -> np.ndarray:
    """View a contiguous array as bytes, without a copy."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def regrouped(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Yield the bytes of the arrays in full pieces."""
    rest = np.empty(0, np.uint8)
    for data in arrays:
        joined = np.concatenate([rest, data]) if len(rest) else data
        whole = len(joined) - len(joined) % PIECE
        for start in range(0, whole, PIECE):
            yield joined[start : start + PIECE]
        rest = joined[whole:].copy()
    if len(rest):
        yield rest


def starts_in(size: int) -> range:
    """Start positions of the pieces of a tensor of `size` bytes."""
    return range(0, size, PIECE)
