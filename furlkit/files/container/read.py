"""Writing and reading the safetensors container itself.

safetensors' own writer puts metadata keys in random order, ignores the umask and does
not fsync; its reader maps the file, which makes memory hard to bound, and accepts
headers that furlkit does not. The format is simple enough to do both here: 8 bytes of
length, a JSON header, the tensors. Files written here open in the safetensors library.

Two hashes in the header seal a file. `content` names it: the sha256 of the whole file
with the digits of both hashes read as zeros. `check` (see `checksum`), made with its own
digits as zeros, is what every reader compares, because it costs next to nothing.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np

from furlkit.errors import DiskError, FurlkitError, InputError
from furlkit.files.container.atomic import replacing
from furlkit.files.container.header import (
    UNSEALED,
    Header,
    canonical,
    parse_header,
    parse_strict,
    with_article,
)
from furlkit.files.container.layout import Entry, describe, place, understand
from furlkit.files.container.seal import Checksum, regrouped

# A ResNet-50's header takes 40 kB. The cap keeps a hostile header cheap to refuse.
HEADER_LIMIT = 4 * 2**20
_SEALS = {"content": b'\\"content\\":\\"', "check": b'\\"check\\":\\"'}
_CHUNK = 4 * 2**20

Pieces = Callable[[Entry], Iterable[np.ndarray]]


def write(path: Path, tensors: dict[str, np.ndarray], header: Header) -> Header:
    """Write tensors and header; give back the header with its content hash."""
    entries = [entry_of(name, array) for name, array in tensors.items()]
    return write_stream(
        path,
        entries,
        lambda e: [np.ascontiguousarray(tensors[e.name], e.dtype)],
        header,
    )


def entry_of(name: str, array: np.ndarray) -> Entry:
    """The description of one array."""
    return Entry(name, array.dtype.newbyteorder("<"), array.shape)


def write_stream(
    path: Path, entries: Iterable[Entry], pieces: Pieces, header: Header
) -> Header:
    """Write tensors that are made one after the other, in pieces.

    `pieces(entry)` yields arrays whose bytes, one after another, are the tensor; it is
    called once for each entry, in the order of the file.
    """
    placed = place(entries)
    head = _head(path, placed, header.unsealed())
    with replacing(path) as stream:
        digest, checksum, count = hashlib.sha256(head), Checksum(), 0
        stream.write(head)
        for entry in placed:
            written = 0
            for piece in regrouped(bytes_of(array) for array in pieces(entry)):
                digest.update(piece.data)
                checksum.add(piece, count)
                written += stream.write(piece.data)
                count += 1
            if written != entry.size:
                raise ValueError(
                    f"{entry.name}: {written} bytes made, not {entry.size}"
                )
        content = digest.hexdigest()
        named = _sealed(head, "content", UNSEALED, content)
        check = checksum.digest(named)
        stream.seek(0)
        stream.write(_sealed(named, "check", UNSEALED, check))
    return replace(header, content=content, check=check)


def bytes_of(array: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, without a copy."""
    return array.reshape(-1).view(np.uint8) if array.size else np.empty(0, np.uint8)


def _head(path: Path, placed: list[Entry], header: Header) -> bytes:
    words = {entry.name: describe(entry) for entry in placed}
    table = {"__metadata__": {"format": "pt", "furlkit": header.to_json()}, **words}
    text = canonical(table).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > HEADER_LIMIT:
        raise FurlkitError(
            f"{path}: its header would take {len(text)} bytes, furlkit accepts "
            f"{HEADER_LIMIT}; nothing was written"
        )
    return len(text).to_bytes(8, "little") + text


def _sealed(head: bytes, name: str, old: str, new: str) -> bytes:
    """The head of a file with other digits for one of its hashes."""
    seal = _SEALS[name]
    return head.replace(seal + old.encode(), seal + new.encode(), 1)


class Container:
    """A furlkit file opened for reading: its header is checked, its body is not yet."""

    def __init__(self, path: Path):
        self.path = Path(path)
        self.header, self.entries, self._head = _read_head(self.path)
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

    def __contains__(self, name: str) -> bool:
        return name in self._by_name

    def stream(self) -> Iterator[tuple[Entry, np.ndarray]]:
        """Every tensor in the file's order, one in memory at a time.

        The checksum is compared when the last one has been taken. The file is opened
        anew for each tensor, so any number of containers can be streamed side by side.
        """
        checksum, count = Checksum(), 0
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
        """Check the sha256 of the whole file without keeping anything."""
        head = _sealed(self._unchecked_head(), "content", self.content, UNSEALED)
        digest = hashlib.sha256(head)
        try:
            with open(self.path, "rb") as stream:
                stream.seek(self.body_start)
                while chunk := stream.read(_CHUNK):
                    digest.update(chunk)
        except OSError as error:
            raise unreadable(self.path, error) from error
        self._compare(digest.hexdigest(), self.header.content, "content hash")

    def check(self, checksum: Checksum) -> None:
        """Compare the checksum of the whole file with the one in its header."""
        found = checksum.digest(self._unchecked_head())
        self._compare(found, self.header.check, "checksum")

    def _unchecked_head(self) -> bytes:
        return _sealed(self._head, "check", self.header.check, UNSEALED)

    def _compare(self, found: str, wanted: str, name: str) -> None:
        if found != wanted:
            raise InputError(
                f"{self.path}: its bytes do not match the {name} in its header; "
                "the file was damaged or edited; copy it again or make it anew"
            )


def open_kind(path: Path, kind: str) -> Container:
    """Open a file that must be of one kind."""
    container = Container(path)
    if container.header.kind != kind:
        found, wanted = with_article(container.header.kind), with_article(kind)
        raise InputError(f"{path}: is {found} file, {wanted} was wanted here")
    return container


def _read_head(path: Path) -> tuple[Header, list[Entry], bytes]:
    try:
        with open(path, "rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            head = stream.read(8)
            length = int.from_bytes(head, "little")
            _check_start(path, head, length, size)
            text = stream.read(length)
    except OSError as error:
        raise unreadable(path, error) from error
    table = _parse_table(path, text)
    metadata = table.pop("__metadata__", None)
    if not isinstance(metadata, dict) or not isinstance(metadata.get("furlkit"), str):
        raise InputError(
            f"{path}: is a safetensors file, but not one of furlkit's: "
            "its metadata has no key 'furlkit'"
        )
    header = parse_header(path, metadata["furlkit"])
    for name, seal in _SEALS.items():
        if text.count(seal + getattr(header, name).encode()) != 1:
            raise InputError(
                f"{path}: its header has no readable {name}; was it rewritten by "
                "another program? Make it anew"
            )
    try:
        entries = understand(table, size - 8 - length)
    except ValueError as error:
        raise InputError(f"{path}: {error}; copy it again or make it anew") from error
    return header, entries, head + text


def _check_start(path: Path, head: bytes, length: int, size: int) -> None:
    if size < 10:
        raise InputError(f"{path}: has {size} bytes, too few for a safetensors file")
    # A length may begin with these bytes as well, but then it fits the file.
    if length > size - 8 and head.startswith((b"PK", b"\x80")):
        raise InputError(
            f"{path}: is a pickle or zip file; furlkit reads safetensors only and "
            "never unpickles; convert it with safetensors.torch.save_file first"
        )
    if length > size - 8 and head.lstrip().startswith(b"{"):
        raise InputError(
            f"{path}: is JSON and not a safetensors file, which was wanted here"
        )
    if length > size - 8:
        raise InputError(
            f"{path}: not a safetensors file, or truncated: its header should take "
            f"{length} bytes, the file has {size}"
        )
    if length > HEADER_LIMIT:
        raise InputError(
            f"{path}: its header takes {length} bytes, furlkit accepts {HEADER_LIMIT}"
        )


def _parse_table(path: Path, text: bytes) -> dict:
    try:
        table = parse_strict(text)
    except (ValueError, RecursionError) as error:
        what = "is not JSON" if isinstance(error, json.JSONDecodeError) else "is broken"
        raise InputError(f"{path}: its header {what}: {error}") from error
    if not isinstance(table, dict):
        raise InputError(f"{path}: its header is not a JSON object")
    return table


def _read_fully(stream, view: memoryview, path: Path) -> None:
    done = 0
    while done < len(view):
        count = stream.readinto(view[done:])
        if not count:
            raise InputError(f"{path}: became shorter while it was read")
        done += count


def unreadable(path: Path, error: OSError) -> InputError | DiskError:
    """The user's words for a file that cannot be opened or read."""
    if isinstance(error, FileNotFoundError):
        return InputError(f"{path}: no such file")
    if isinstance(error, IsADirectoryError):
        return InputError(f"{path}: is a folder, a file was wanted")
    return DiskError(f"{path}: cannot read: {error.strerror or error}")
