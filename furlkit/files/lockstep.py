"""Reading many checkpoints of one shape side by side, in one pass and little memory."""

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from furlkit.errors import DiskError, InputError
from furlkit.files.container import Container
from furlkit.files.layout import Entry

# A piece stays in the cache between reading it, hashing it and adding it up.
PIECE = 256 * 1024
_BUFFERS = 8


class Lockstep:
    """Streams tensor after tensor, piece after piece, each from every file in turn.

    Content hashes are made along the way, in a thread beside, and checked by `finish`.
    """

    def __init__(self, containers: Sequence[Container]):
        self._containers = containers
        self._digests = [c.digest() for c in containers]
        self._hashed = 0
        self._buffers = [np.empty(PIECE, np.uint8) for _ in range(_BUFFERS)]
        self._busy: list[Future | None] = [None] * _BUFFERS
        self._turn = 0
        self._pool = ThreadPoolExecutor(1)
        self._handles: list[int] = []

    def __enter__(self) -> "Lockstep":
        _allow_files(len(self._containers) + 64)
        try:
            for opened in self._containers:
                self._handles.append(os.open(opened.path, os.O_RDONLY))
        except OSError as error:
            self.__exit__()
            raise DiskError(f"{opened.path}: cannot open: {error.strerror}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown()
        while self._handles:
            os.close(self._handles.pop())

    def pieces(self, entry: Entry) -> Iterator[Iterator[np.ndarray]]:
        """For each piece of a tensor, that piece of every file, in the files' order.

        An array is good until a few more have been taken. Tensors are asked for in the
        order of the file.
        """
        self._hash_up_to(entry.start)
        step = PIECE - PIECE % entry.dtype.itemsize
        for start in range(entry.start, entry.end, step):
            size = min(step, entry.end - start)
            yield self._columns(start, size, entry.dtype)
            self._hashed = start + size

    def finish(self) -> None:
        """Check the content hash of every file."""
        last = self._containers[0].entries[-1].end if self._containers[0].entries else 0
        self._hash_up_to(last)
        self._pool.submit(int).result()
        for opened, digest in zip(self._containers, self._digests, strict=True):
            opened.check(digest)

    def _columns(self, start: int, size: int, dtype: np.dtype) -> Iterator[np.ndarray]:
        for k in range(len(self._containers)):
            yield self._read(k, start, size).view(dtype)

    def _hash_up_to(self, end: int) -> None:
        """Tensors that nobody asked for count in the hash all the same."""
        while self._hashed < end:
            size = min(PIECE, end - self._hashed)
            for k in range(len(self._containers)):
                self._read(k, self._hashed, size)
            self._hashed += size

    def _read(self, k: int, start: int, size: int) -> np.ndarray:
        slot = self._turn = (self._turn + 1) % _BUFFERS
        pending = self._busy[slot]
        if pending is not None:
            pending.result()
        piece, opened = self._buffers[slot][:size], self._containers[k]
        done = 0
        while done < size:
            offset = opened.body_start + start + done
            count = os.preadv(self._handles[k], [piece[done:].data], offset)
            if not count:
                raise InputError(f"{opened.path}: became shorter while it was read")
            done += count
        self._busy[slot] = self._pool.submit(self._digests[k].update, piece)
        return piece


def _allow_files(count: int) -> None:
    """Raise the soft limit on open files where more clients than that take part."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < count:
        wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
