"""Reading safetensors files: the library reads the header, behind checks of our own.

A header's length is capped before anything is parsed. The library refuses gaps, overlaps,
truncation and shapes that do not fit their bytes. It accepts names that look like paths,
shapes that numpy cannot hold, and a name that occurs twice: these are refused here.
Tensors are read by positioned reads and not through the library's memory map, so that
memory is bounded. See `seal` for the two hashes.

Files of format version 1 have a `check` of another definition, which is not computed any
more: their `content` is verified instead when their tensors are read.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import numpy as np
from safetensors import SafetensorError, safe_open

from furlkit.errors import DiskError, InputError
from furlkit.files.container.header import LIMIT, Header, parse_header, with_article
from furlkit.files.container.layout import Entry, located, table
from furlkit.files.container.seal import (
    MARKS,
    UNSEALED,
    Checksum,
    bytes_of,
    with_digits,
)

FLOATS = "float16 float32 float64"
_CHUNK = 4 * 2**20
_COPY_AGAIN = "copy it again or re-create it"


class Container:
    """A furlkit file opened for reading: its header is checked, its body is not yet."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self._head = _read_head(self.path)
        self.header, self.entries = _parse(self.path, self._head)
        self._by_name = {entry.name: entry for entry in self.entries}

    @property
    def content(self) -> str:
        """The file's content hash, as its header gives it."""
        return self.header.content

    @property
    def body_start(self) -> int:
        """Where in the file the tensors begin."""
        return len(self._head)

    def entry(self, name: str) -> Entry:
        """The description of one tensor, which must be there."""
        if name not in self._by_name:
            raise InputError(f"{self.path}: has no tensor {name}")
        return self._by_name[name]

    def expect(self, name: str, dtypes: str, *shape: int | str) -> Entry:
        """A tensor of one of these types; in its shape a word stands for any length."""
        entry = self.entry(name)
        fits = len(shape) == len(entry.shape) and all(
            isinstance(length, str) or length == found
            for length, found in zip(shape, entry.shape, strict=True)
        )
        if entry.dtype.name not in dtypes.split() or not fits:
            expected = ", ".join(map(str, shape))
            raise InputError(
                f"{self.path}: {name} is {entry.dtype} {entry.shape}; expected "
                f"{dtypes.replace(' ', ' or ')} ({expected}); re-create it"
            )
        return entry

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def stream(self) -> Iterator[tuple[Entry, np.ndarray]]:
        """Every tensor in the file's order, one in memory at a time.

        The checksum is compared after the last one. The file is opened once for each
        tensor, so any number of containers can be streamed side by side.
        """
        checksum, count = self.start_check(), 0
        for entry in self.entries:
            array = self.read(entry)
            count = checksum.add_tensor(bytes_of(array), count)
            yield entry, array
        self.check(checksum)

    def read(self, entry: Entry) -> np.ndarray:
        """One tensor, unchecked; `stream` and `tensors` check."""
        array = np.empty(entry.shape, entry.dtype)
        if not array.size:
            return array
        try:
            with open(self.path, "rb", buffering=0) as stream:
                stream.seek(self.body_start + entry.start)
                _read_fully(stream, bytes_of(array).data, self.path)
        except OSError as error:
            raise unreadable(self.path, error) from error
        return array

    def tensors(self) -> dict[str, np.ndarray]:
        """All tensors, after the checksum has been compared."""
        return {entry.name: array for entry, array in self.stream()}

    def memmap(self, name: str) -> np.ndarray:
        """One tensor as a read-only memory map; its bytes are not checked."""
        entry = self.entry(name)
        if not entry.size:
            return np.empty(entry.shape, entry.dtype)
        offset = self.body_start + entry.start
        return np.memmap(self.path, entry.dtype, "r", offset, entry.shape)

    def verify(self) -> None:
        """Compare the sha256 of the whole file without keeping anything."""
        head = with_digits(self._unchecked_head(), "content", self.content, UNSEALED)
        digest = hashlib.sha256(head)
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.body_start)
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self._compare(digest.hexdigest(), self.header.content, "content hash")

    def start_check(self) -> Checksum:
        """A checksum for the pieces that are about to be read, for `check` to compare.

        A file of version 1 has none that could be compared: it is verified now.
        """
        if self.header.version == 1:
            self.verify()
        return Checksum()

    def check(self, checksum: Checksum) -> None:
        """Compare the checksum of the whole file with the one in its header."""
        if self.header.version > 1:
            found = checksum.digest(self._unchecked_head())
            self._compare(found, self.header.check, "checksum")

    def _unchecked_head(self) -> bytes:
        return with_digits(self._head, "check", self.header.check, UNSEALED)

    def _compare(self, found: str, expected: str, name: str) -> None:
        if found != expected:
            raise InputError(
                f"{self.path}: its bytes do not match the {name} in its header; "
                f"the file was damaged or edited; {_COPY_AGAIN}"
            )


def open_kind(path: Path, kind: str) -> Container:
    """Open a file that must be of one kind."""
    container = Container(path)
    if container.header.kind != kind:
        found, expected = with_article(container.header.kind), with_article(kind)
        raise InputError(f"{path}: is {found} file; expected {expected} file")
    return container


def _read_head(path: Path) -> bytes:
    """The length and the text of the header, once the length makes sense."""
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            start = stream.read(8)
            length = int.from_bytes(start, "little")
            _check_start(path, start, length, size)
            return start + stream.read(length)
    except OSError as error:
        raise unreadable(path, error) from error


def _parse(path: Path, head: bytes) -> tuple[Header, list[Entry]]:
    try:
        with safe_open(path, "numpy") as opened:
            metadata = opened.metadata() or {}
            header = _furlkit_header(path, metadata)
            slices = ((name, opened.get_slice(name)) for name in opened.offset_keys())
            entries = located((n, s.get_dtype(), s.get_shape()) for n, s in slices)
    except OSError as error:
        raise unreadable(path, error) from error
    except (SafetensorError, ValueError) as error:
        reason = str(error)[:200]
        raise InputError(
            f"{path}: truncated, damaged or not a safetensors file: {reason}; {_COPY_AGAIN}"
        ) from error
    _check_canonical(path, head, header, table(entries, metadata))
    return header, entries


def _furlkit_header(path: Path, metadata: dict[str, str]) -> Header:
    if "furlkit" not in metadata:
        raise InputError(
            f"{path}: is a safetensors file, but not one of furlkit's: "
            "its metadata has no key 'furlkit'"
        )
    return parse_header(path, metadata["furlkit"])


def _check_canonical(path: Path, head: bytes, header: Header, text: bytes) -> None:
    """The header must be, to the byte, the one furlkit writes for its content.

    The library merges names that occur twice; the text then differs.
    """
    hashes = all(
        head.count(mark + getattr(header, name).encode()) == 1
        for name, mark in MARKS.items()
    )
    if not hashes or head[8:].rstrip(b" ") != text:
        raise InputError(
            f"{path}: its header is not written as furlkit writes it: a name occurs "
            "twice, or another program has rewritten the file; re-create it"
        )


def _check_start(path: Path, start: bytes, length: int, size: int) -> None:
    if size < 10:
        raise InputError(f"{path}: has {size} bytes, too few for a safetensors file")
    # A length may begin with these bytes as well, but then it fits the file.
    if length > size - 8 and start.startswith((b"PK", b"\x80")):
        raise InputError(
            f"{path}: is a pickle or zip file; furlkit reads safetensors only and "
            "never unpickles; convert it with safetensors.torch.save_file first"
        )
    if length > size - 8 and start.lstrip().startswith(b"{"):
        raise InputError(
            f"{path}: is JSON, not a safetensors file; expected a furlkit file with tensors"
        )
    if length > size - 8:
        raise InputError(
            f"{path}: not a safetensors file, or truncated: its header should take "
            f"{length} bytes, the file has {size}; {_COPY_AGAIN}"
        )
    if length > LIMIT:
        raise InputError(
            f"{path}: its header takes {length} bytes, furlkit accepts {LIMIT}"
        )


def _read_fully(stream: BinaryIO, view: memoryview, path: Path) -> None:
    done = 0
    while done < len(view):
        count = stream.readinto(view[done:])  # type: ignore[attr-defined]
        if not count:
            raise InputError(f"{path}: became shorter while it was read")
        done += count


def unreadable(path: Path, error: OSError) -> InputError | DiskError:
    """The error for a file that cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{path}: is a folder; expected a file")
    return DiskError(f"{path}: cannot read: {error.strerror or error}")
