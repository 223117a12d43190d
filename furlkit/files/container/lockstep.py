"""Reading many checkpoints of one shape side by side, in one pass and little memory."""

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np

from furlkit.errors import DiskError, InputError
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container
from furlkit.files.container.seal import PIECE, Checksum, cut, pieces_in

Combine = Callable[[Iterator[np.ndarray]], np.ndarray]


class Lockstep:
    """Reads tensor after tensor, piece after piece, each from every file in turn.

    Pieces are combined by a few threads. Checksums are computed along the way; `finish`
    compares them, when every tensor has been combined or skipped.
    """

    def __init__(self, containers: Sequence[Container]):
        self._containers = containers
        self._checksums: list[Checksum] = []
        entries = containers[0].entries
        counts = [pieces_in(entry.size) for entry in entries]
        starts = accumulate(counts, initial=0)
        self._places = dict(zip((e.name for e in entries), starts, strict=False))
        self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        self._handles: list[int] = []

    def __enter__(self) -> "Lockstep":
        _allow_files(len(self._containers) + 64)
        self._checksums = [opened.start_check() for opened in self._containers]
        for opened in self._containers:
            try:
                self._handles.append(os.open(opened.path, os.O_RDONLY))
            except OSError as error:
                self.__exit__()
                reason = f"cannot open: {error.strerror}"
                raise DiskError(f"{opened.path}: {reason}") from error
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        while self._handles:
            os.close(self._handles.pop())

    def combine(self, entry: Entry, combine: Combine) -> Iterator[np.ndarray]:
        """For each piece of a tensor, what `combine` computes from all files.

        `combine` is given that piece of every file, in the files' order; an array is
        valid until the next one is taken.
        """
        first = self._places[entry.name]

        def one(piece: tuple[int, tuple[int, int]]) -> np.ndarray:
            place, (start, size) = piece
            return combine(self._columns(entry, first + place, start, size))

        yield from self._pool.map(one, enumerate(cut(entry.size)))

    def skip(self, entry: Entry) -> None:
        """Read a tensor that is not used for the checksum alone."""
        for _ in self.combine(entry, lambda columns: np.empty(sum(1 for _ in columns))):
            pass

    def finish(self) -> None:
        """Check every file against its checksum."""
        for opened, checksum in zip(self._containers, self._checksums, strict=True):
            opened.check(checksum)

    def _columns(
        self, entry: Entry, place: int, start: int, size: int
    ) -> Iterator[np.ndarray]:
        buffer = np.empty(PIECE, np.uint8)[:size]
        for k, opened in enumerate(self._containers):
            offset = opened.body_start + entry.start + start
            _read_at(self._handles[k], buffer, offset, opened)
            self._checksums[k].add(buffer, place)
            yield buffer.view(entry.dtype)


def _read_at(handle: int, buffer: np.ndarray, offset: int, opened: Container) -> None:
    done = 0
    while done < len(buffer):
        try:
            count = os.preadv(handle, [buffer[done:].data], offset + done)
        except OSError as error:
            reason = f"cannot read: {error.strerror}"
            raise DiskError(f"{opened.path}: {reason}") from error
        if not count:
            raise InputError(f"{opened.path}: became shorter while it was read")
        done += count


def _allow_files(count: int) -> None:
    """Raise the soft limit on open files if there are more clients than it allows."""
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < count:
        most = count if hard == resource.RLIM_INFINITY else min(count, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
