"""The two hashes in a file's header, and the checksum that every reader compares.

`content` names a file: the sha256 of the whole file with the digits of both hashes read
as zeros. Computing it takes longer than reading the file, so readers compare `check`:
the sha256 of the head (with its own digits read as zeros) followed by the crc32 of each
piece of each tensor, in the order of the file. Pieces may be computed in any order, by
several threads, and more than once.

What `check` finds: every change of the head; and within a piece every single flipped
bit, every pair of flipped bits and every burst of up to 32 bits. Any other change is
missed with a probability of 2^-32 for each damaged piece. What it does not find: a
forgery. Whoever changes a file on purpose can compute both hashes again, and can also
change bytes so that their crc32 stays the same; `furlkit inspect --verify` compares
`content` and so finds the latter.
"""

import hashlib
import zlib
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

# Small enough to stay in the cache while it is read, checked and summed; large enough
# that threads spend their time in C, where others can run, and not in Python.
PIECE = 1024 * 1024
UNSEALED = "0" * 64
# How the digits are introduced in a head: JSON inside a string of JSON.
MARKS = {"content": b'\\"content\\":\\"', "check": b'\\"check\\":\\"'}


def crcs_of(data: np.ndarray) -> list[int]:
    """The crc32 of each piece of a tensor's bytes."""
    view, starts = data.data, starts_in(len(data))
    return [zlib.crc32(view[start : start + PIECE]) for start in starts]


def checksum(head: bytes, crcs: Sequence[int] | np.ndarray) -> str:
    """The checksum of a file from its head and the crc32 of every piece, in order."""
    return hashlib.sha256(head + np.asarray(crcs, "<u4").tobytes()).hexdigest()


def with_digits(head: bytes, name: str, old: str, new: str) -> bytes:
    """The head of a file with other digits for one of its hashes."""
    mark = MARKS[name]
    return head.replace(mark + old.encode(), mark + new.encode(), 1)


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def regrouped(arrays: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """The same bytes in full pieces, whatever the sizes they come in."""
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
    """Where the pieces of a tensor of `size` bytes start."""
    return range(0, size, PIECE)
