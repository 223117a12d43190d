"""Reading of many checkpoints in parallel, in one pass and little memory."""

import hashlib
import os
import resource
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import accumulate
from typing import Any

import numpy as np

from furlkit.errors import FurlkitError
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import ChangedFile, Container
from furlkit.files.container.seal import PIECE, starts_in
from furlkit.files.opening import open_handle, open_regular

SPARE = 64  # Open files of the process for other purposes, threads included.
Combine = Callable[[Iterator[np.ndarray]], np.ndarray]
Stacked = Callable[[np.ndarray], np.ndarray]
STACK = 4 * 1024 * 1024  # Bytes of the files in memory at once, by thread.


class Lockstep:
    """Read tensor after tensor, piece after piece, from every file with the tensor.

    A few threads combine the pieces. For a file with `digests`, every piece is compared
    with its digest, and a difference raises ChangedFile. For other files the checksums
    are computed on the way; `finish` compares them, after every tensor has been
    combined or skipped.
    """

    def __init__(self, containers: Sequence[Container]):
        self._files = [_File(opened) for opened in containers]
        self._threads = min(4, os.cpu_count() or 1)
        self._pool = ThreadPoolExecutor(self._threads)

    def __enter__(self) -> "Lockstep":
        allowed = _allow_files(len(self._files) + SPARE) - SPARE
        try:
            for file in self._files[: max(0, allowed)]:
                file.keep_open()
        except FurlkitError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)
        for file in self._files:
            file.close()

    def combine(self, entry: Entry, combine: Combine) -> Iterator[np.ndarray]:
        """Yield the result of `combine` for each piece of a tensor.

        `combine` receives the piece of every file, in the order of the files; an array
        is valid until the next array is taken.
        """

        def one(piece: tuple[int, int]) -> np.ndarray:
            return combine(self._columns(entry, *piece))

        yield from self._pool.map(one, enumerate(starts_in(entry.size)))

    def stacked(self, entry: Entry, function: Stacked) -> Iterator[np.ndarray]:
        """Yield `function` of each slice of a tensor, stacked over the files (m, n).

        A stack of slices fits into STACK. Memory has room for one more stack than there
        are threads.
        """
        pending: deque[Future[np.ndarray]] = deque()
        for number, start in enumerate(starts_in(entry.size)):
            for stack in self._stacks(entry, number, start):
                pending.append(self._pool.submit(function, stack))
                if len(pending) > self._threads:
                    yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()

    def skip(self, entry: Entry) -> None:
        """Read an unused tensor, for the checksum alone."""
        for _ in self.combine(entry, lambda columns: np.empty(sum(1 for _ in columns))):
            pass

    def finish(self) -> None:
        """Compare the checksum of every file."""
        for file in self._files:
            file.finish()

    def _stacks(self, entry: Entry, number: int, start: int) -> Iterator[np.ndarray]:
        having = [file for file in self._files if entry.name in file.places]
        # A multiple of every type's width.
        step = max(STACK // len(having) // 64 * 64, 64)
        end = min(start + PIECE, entry.size)
        sums = [file.new_sum() for file in having]
        for begin in range(start, end, step):
            stack = np.empty((len(having), min(step, end - begin)), np.uint8)
            for row, file, sum_ in zip(stack, having, sums, strict=True):
                file.fill(row, entry, begin)
                sum_.update(row.data)
            yield stack.view(entry.dtype)
        for file, sum_ in zip(having, sums, strict=True):
            file.keep_sum(entry, number, sum_)

    def _columns(self, entry: Entry, number: int, start: int) -> Iterator[np.ndarray]:
        buffer = np.empty(PIECE, np.uint8)[: entry.size - start]
        for file in self._files:
            if entry.name not in file.places:
                continue
            file.fill(buffer, entry, start)
            sum_ = file.new_sum()
            sum_.update(buffer.data)
            file.keep_sum(entry, number, sum_)
            yield buffer.view(entry.dtype)


class _Crc32:
    """zlib's crc32 with the `update` method of hashlib's objects."""

    def __init__(self) -> None:
        self.value = 0

    def update(self, data: memoryview) -> None:
        """Add bytes."""
        self.value = zlib.crc32(data, self.value)


class _File:
    """A file; `places` has the first byte and the first piece of each tensor."""

    def __init__(self, opened: Container):
        self._opened = opened
        self._handle: int | None = None
        counts = (len(starts_in(entry.size)) for entry in opened.entries)
        pieces = list(accumulate(counts, initial=0))
        self._crcs = np.zeros(pieces[-1], np.uint32)
        pairs = zip(opened.entries, pieces, strict=False)
        self.places = {entry.name: (entry.start, piece) for entry, piece in pairs}
        self.places |= {k: self.places[name] for k, name in opened.aliases.items()}

    def keep_open(self) -> None:
        """Open the file once for all reads; otherwise each read opens the file."""
        with self._changes():
            self._handle = open_handle(self._opened.path)

    def close(self) -> None:
        """Close the file if it was kept open."""
        if self._handle is not None:
            os.close(self._handle)
        self._handle = None

    def fill(self, buffer: np.ndarray, entry: Entry, start: int) -> None:
        """Read bytes of a tensor, from `start` on."""
        begin = self.places[entry.name][0] + start
        with self._changes():
            if self._handle is not None:
                return self._opened.fill(buffer, begin, self._handle)
            with open_regular(self._opened.path) as stream:
                self._opened.fill(buffer, begin, stream.fileno())

    def new_sum(self) -> Any:
        """Return an empty sum: sha256 for a file with digests, otherwise crc32."""
        return _Crc32() if self._opened.digests is None else hashlib.sha256()

    def keep_sum(self, entry: Entry, number: int, sum_: Any) -> None:
        """Compare or keep the sum of a piece of a tensor that was read completely."""
        piece = self.places[entry.name][1] + number
        if self._opened.digests is None:
            self._crcs[piece] = sum_.value
        elif sum_.digest() != self._opened.digests[piece]:
            raise ChangedFile(self._opened.path)

    def finish(self) -> None:
        """Compare the checksum; a file with digests is already compared."""
        if self._opened.digests is None:
            self._opened.check(self._crcs)

    @contextmanager
    def _changes(self) -> Iterator[None]:
        """Raise ChangedFile if a file with digests cannot be read any more."""
        try:
            yield
        except FurlkitError as error:
            if self._opened.digests is None:
                raise
            raise ChangedFile(self._opened.path) from error


def _allow_files(count: int) -> int:
    """Raise the soft limit on open files to `count` if lower; return the limit.

    A hard limit below `count` is the maximum.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= count:
        return count
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
    return most
