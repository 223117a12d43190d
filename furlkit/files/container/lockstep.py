"""Reading many checkpoints side by side, in one pass and little memory."""

import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate

import numpy as np

from furlkit.errors import DiskError
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container
from furlkit.files.container.seal import PIECE, starts_in

Combine = Callable[[Iterator[np.ndarray]], np.ndarray]
Stacked = Callable[[np.ndarray], np.ndarray]
STACK = 4 * 1024 * 1024  # Bytes of all files that are in memory at once, by thread.


class Lockstep:
    """Reads tensor after tensor, piece after piece, each from every file that has it.

    Pieces are combined by a few threads. Checksums are computed along the way; `finish`
    compares them, when every tensor has been combined or skipped.
    """

    def __init__(self, containers: Sequence[Container]):
        self._containers = containers
        self._layouts = [_Layout(opened.entries) for opened in containers]
        self._pool = ThreadPoolExecutor(min(4, os.cpu_count() or 1))
        self._handles: list[int] = []

    def __enter__(self) -> "Lockstep":
        _allow_files(len(self._containers) + 64)
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

        def one(piece: tuple[int, int]) -> np.ndarray:
            return combine(self._columns(entry, *piece))

        yield from self._pool.map(one, enumerate(starts_in(entry.size)))

    def stacked(self, entry: Entry, function: Stacked) -> Iterator[np.ndarray]:
        """For each slice of a tensor, `function` of that slice of all files, (m, n).

        Slices are so short that those of all files together fit into STACK.
        """

        def one(piece: tuple[int, int]) -> list[np.ndarray]:
            return [function(stack) for stack in self._stacks(entry, *piece)]

        for found in self._pool.map(one, enumerate(starts_in(entry.size))):
            yield from found

    def skip(self, entry: Entry) -> None:
        """Read a tensor that is not used for the checksum alone."""
        for _ in self.combine(entry, lambda columns: np.empty(sum(1 for _ in columns))):
            pass

    def finish(self) -> None:
        """Check every file against its checksum."""
        for opened, layout in zip(self._containers, self._layouts, strict=True):
            opened.check(layout.crcs)

    def _stacks(self, entry: Entry, number: int, start: int) -> Iterator[np.ndarray]:
        having = [
            k for k, each in enumerate(self._layouts) if entry.name in each.places
        ]
        # A multiple of every type's width.
        step = max(STACK // len(having) // 64 * 64, 64)
        end = min(start + PIECE, entry.size)
        crcs = dict.fromkeys(having, 0)
        for begin in range(start, end, step):
            stack = np.empty((len(having), min(step, end - begin)), np.uint8)
            for row, k in zip(stack, having, strict=True):
                body, _ = self._layouts[k].places[entry.name]
                self._containers[k].fill(row, body + begin, self._handles[k])
                crcs[k] = zlib.crc32(row.data, crcs[k])
            yield stack.view(entry.dtype)
        for k, crc in crcs.items():
            layout = self._layouts[k]
            layout.crcs[layout.places[entry.name][1] + number] = crc

    def _columns(self, entry: Entry, number: int, start: int) -> Iterator[np.ndarray]:
        buffer = np.empty(PIECE, np.uint8)[: entry.size - start]
        for k, layout in enumerate(self._layouts):
            if entry.name not in layout.places:
                continue
            body, piece = layout.places[entry.name]
            self._containers[k].fill(buffer, body + start, self._handles[k])
            layout.crcs[piece + number] = zlib.crc32(buffer.data)
            yield buffer.view(entry.dtype)


class _Layout:
    """Where tensors begin in a file's body and among its pieces, and their checksums."""

    def __init__(self, entries: Sequence[Entry]):
        counts = (len(starts_in(entry.size)) for entry in entries)
        pieces = list(accumulate(counts, initial=0))
        self.crcs = np.zeros(pieces[-1], np.uint32)
        pairs = zip(entries, pieces, strict=False)
        self.places = {entry.name: (entry.start, piece) for entry, piece in pairs}


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
