"""Reading many checkpoints side by side, in one pass and little memory."""

import os
import resource
import zlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate

import numpy as np

from furlkit.errors import FurlkitError
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container
from furlkit.files.container.seal import PIECE, starts_in
from furlkit.files.opening import open_handle, open_regular

SPARE = 64  # Files that the process has open for other purposes, threads included.
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
        allowed = _allow_files(len(self._containers) + SPARE) - SPARE
        try:
            for opened in self._containers[: max(0, allowed)]:
                self._handles.append(open_handle(opened.path))
        except FurlkitError:
            self.__exit__()
            raise
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
                with self._handle(k) as handle:
                    self._containers[k].fill(row, body + begin, handle)
                crcs[k] = zlib.crc32(row.data, crcs[k])
            yield stack.view(entry.dtype)
        for k, crc in crcs.items():
            layout = self._layouts[k]
            layout.crcs[layout.places[entry.name][1] + number] = crc

    @contextmanager
    def _handle(self, k: int) -> Iterator[int]:
        """A file that is open, or for a moment one of those that are too many."""
        if k < len(self._handles):
            yield self._handles[k]
        else:
            with open_regular(self._containers[k].path) as stream:
                yield stream.fileno()

    def _columns(self, entry: Entry, number: int, start: int) -> Iterator[np.ndarray]:
        buffer = np.empty(PIECE, np.uint8)[: entry.size - start]
        for k, layout in enumerate(self._layouts):
            if entry.name not in layout.places:
                continue
            body, piece = layout.places[entry.name]
            with self._handle(k) as handle:
                self._containers[k].fill(buffer, body + start, handle)
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


def _allow_files(count: int) -> int:
    """Raise the soft limit on open files to `count` if it is lower; gives the limit.

    Where the hard limit is lower than that too, it is the limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
