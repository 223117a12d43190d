"""A checksum that costs less than reading the file.

The sha256 in a header names a file; making it takes five times as long as reading one
from the page cache. To find damage, each reader checks this sum instead: the 64-bit
words of every piece of every tensor are added up with an odd factor for each word's
place, so are the sums of the pieces, and the total is hashed together with the file's
head. Any single changed word is found, and so are words and pieces out of place. Pieces
may be added in any order, so threads can share the work.
"""

import hashlib
from collections.abc import Iterable, Iterator
from threading import Lock

import numpy as np

# Small enough to stay in the cache while it is read, checked and added up; large enough
# that threads spend their time in numpy, which lets others run, and not in Python.
PIECE = 1024 * 1024
_MODULUS = 2**64
_ODD = np.arange(1, PIECE // 4, 2, dtype=np.uint64)


class Checksum:
    """The sum over the pieces of a file's body."""

    def __init__(self) -> None:
        self.total = 0
        self._lock = Lock()

    def add(self, piece: np.ndarray, place: int) -> None:
        """Take in one piece of bytes, the `place`-th of its file."""
        whole = len(piece) & ~7
        words = int(np.dot(piece[:whole].view("<u8"), _ODD[: whole // 8]))
        rest = int.from_bytes(piece[whole:].tobytes(), "little")
        value = (words + rest) * (2 * place + 1)
        with self._lock:
            self.total = (self.total + value) % _MODULUS

    def add_tensor(self, data: np.ndarray, place: int) -> int:
        """Take in a tensor's bytes; give the place behind it."""
        for start, size in cut(len(data)):
            self.add(data[start : start + size], place)
            place += 1
        return place

    def digest(self, head: bytes) -> str:
        """The checksum of a file with this head, as 64 hexadecimal digits."""
        return hashlib.sha256(head + self.total.to_bytes(8, "little")).hexdigest()


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


def cut(size: int) -> Iterator[tuple[int, int]]:
    """Start and size of the pieces of a tensor of `size` bytes."""
    for start in range(0, size, PIECE):
        yield start, min(PIECE, size - start)


def pieces_in(size: int) -> int:
    """How many pieces a tensor of `size` bytes has."""
    return -(-size // PIECE)
