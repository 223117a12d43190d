"""Reading of safetensors files: the library parses the header, after our checks.

The length of a header is limited before parsing. The library refuses gaps, overlaps,
truncation and shapes that do not fit the bytes. The library accepts names that look
like paths, shapes that numpy cannot represent, duplicate names: furlkit refuses these.
Tensors are read by positioned reads, not through the library's memory map, to bound
the memory. See `seal` for the two hashes.

Files of format version 1 have a `check` with another definition, which furlkit no
longer computes: reading the tensors compares `content` instead.
"""

import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container import seal
from furlkit.files.container.header import LIMIT, Header, parse_header, with_article
from furlkit.files.container.layout import Entry, located, table
from furlkit.files.opening import open_regular, reading

FLOATS = "float16 float32 float64"
_SECRET = 32  # Bytes of the secret of a site.
_COPY_AGAIN = "copy it again or re-create it"
Tensors = dict[str, np.ndarray]
Pieces = Iterator[tuple[Entry, np.ndarray]]


class ChangedFile(InputError):
    """A file that has changed since it was checked."""

    def __init__(self, path: Path):
        super().__init__(f"{path}: has changed since it was checked")
        self.path = path


class ForeignError(InputError):
    """A safetensors file of another program."""


class Container:
    """A furlkit file opened for reading; the header is checked, the body not yet.

    `digests`: the sha256 of every piece of the body, if `verified_pieces` was told to
    remember them; a later pass compares bytes with the digests. `aliases`: further
    names of tensors, for files that are read in parallel. `by`: the hash that readers
    compare with the bytes, `check` or, if others name or sign the file, `content`.
    """

    def __init__(self, path: Path):
        self.path = Path(path)
        self._head, _ = read_head(self.path)
        with _parsing(self.path), safe_open(self.path, "numpy") as opened:
            metadata = opened.metadata() or {}
            self.header = _furlkit_header(self.path, metadata)
            self.entries = _entries(opened)
        text = table(self.entries, metadata)
        check_canonical(self.path, self._head, self.header, text)
        self._by_name = {entry.name: entry for entry in self.entries}
        self.digests: list[bytes] | None = None
        self.aliases: dict[str, str] = {}
        self.by = "check"

    @property
    def content(self) -> str:
        """Content hash recorded in the header."""
        return self.header.content

    @property
    def body_start(self) -> int:
        """Position of the first tensor in the file."""
        return len(self._head)

    @property
    def size(self) -> int:
        """Number of bytes of the tensors."""
        return sum(entry.size for entry in self.entries)

    def entry(self, name: str) -> Entry:
        """Return the description of a tensor, which must exist."""
        if name not in self._by_name:
            raise InputError(f"{self.path}: has no tensor {name}")
        return self._by_name[name]

    def expect(self, name: str, dtypes: str, *shape: int | str) -> Entry:
        """Check a tensor's type and shape; a word in `shape` matches any length."""
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

    def read(self, entry: Entry) -> np.ndarray:
        """One tensor, unchecked; `tensors` checks."""
        array = np.empty(entry.shape, entry.dtype)
        with open_regular(self.path) as stream:
            self.fill(seal.bytes_of(array), entry.start, stream.fileno())
        return array

    def fill(self, buffer: np.ndarray, start: int, handle: int) -> None:
        """Read bytes of the body from `start` on; `handle` is the open file."""
        _fill(self.path, buffer, self.body_start + start, handle)

    def tensors(self) -> dict[str, np.ndarray]:
        """All tensors, after the hash has been compared; the file is opened once."""
        return self.verified_tensors(self.by)

    def verified_tensors(self, by: str | None, remember: bool = False) -> Tensors:
        """Read the tensors and compare `content` or `check` of the bytes read.

        `content` does not cover the digits of `check`: compare both.
        """
        arrays = {e.name: np.empty(e.shape, e.dtype) for e in self.entries}
        for _ in self.verified_pieces(by, remember, arrays):
            pass
        if by == "content":
            parts = (seal.crcs_of(seal.bytes_of(arrays[e.name])) for e in self.entries)
            self.check([crc for crcs in parts for crc in crcs])
        return arrays

    def memmap(self, name: str) -> np.ndarray:
        """Map a tensor read-only; the bytes are not checked."""
        entry = self.entry(name)
        if not entry.size:
            return np.empty(entry.shape, entry.dtype)
        offset = self.body_start + entry.start
        with open_regular(self.path) as stream, reading(self.path):
            return np.memmap(stream, entry.dtype, "r", offset, entry.shape)

    def check_body(self, reach: Callable[[int], None] = lambda _: None) -> None:
        """Compare the checksum of the tensors, with one piece in memory.

        `reach` receives the number of bytes read.
        """
        done = 0
        for _, piece in self.verified_pieces("check"):
            done += len(piece)
            reach(done)

    def pieces(self, arrays: Tensors | None = None) -> Pieces:
        """Yield the bytes of every tensor in the file's order, in unchecked pieces.

        An array is valid until the next array is taken; or the bytes go to `arrays`.
        """
        buffer = np.empty(seal.PIECE, np.uint8)
        with open_regular(self.path) as stream:
            for entry in self.entries:
                for start in seal.starts_in(entry.size):
                    piece = buffer[: entry.size - start]
                    if arrays is not None:
                        whole = seal.bytes_of(arrays[entry.name])
                        piece = whole[start : start + seal.PIECE]
                    self.fill(piece, entry.start + start, stream.fileno())
                    yield entry, piece

    def verified_pieces(
        self, by: str | None, remember: bool = False, arrays: Tensors | None = None
    ) -> Pieces:
        """Like `pieces`; compares `content` or `check` after the last piece, if given.

        With `remember` the sha256 of each piece is kept in `digests`.
        """
        whole, crcs, digests = self._digest(), [], []
        for entry, piece in self.pieces(arrays):
            if by == "content":
                whole.update(piece)
            elif by == "check":
                crcs += seal.crcs_of(piece)
            if remember:
                digests.append(hashlib.sha256(piece.data).digest())
            yield entry, piece
        if by == "content":
            self._compare(whole.hexdigest(), "content")
        elif by == "check":
            self.check(crcs)
        if remember:
            self.digests = digests

    def is_unchanged(self) -> bool:
        """Return whether the body still matches the `digests`."""
        try:
            found = [hashlib.sha256(piece.data).digest() for _, piece in self.pieces()]
        except FurlkitError:
            return False
        return found == self.digests

    def verify(self) -> None:
        """Compare both hashes of the whole file without keeping the bytes."""
        pieces = self.verified_pieces("content")
        crcs = [crc for _, piece in pieces for crc in seal.crcs_of(piece)]
        if self.header.version > 1:  # Older files have no checksum.
            self.check(crcs)

    def _digest(self) -> Any:
        """Return the sha256 of the head, with zeros for both hashes."""
        head = self._zeroed(self._head, "check")
        return hashlib.sha256(self._zeroed(head, "content"))

    def check(self, crcs: Sequence[int] | np.ndarray) -> None:
        """Compare the checksum, given the sums of the pieces."""
        if self.header.version == 1:
            self.verify()
        else:
            head = self._zeroed(self._head, "check")
            self._compare(seal.checksum(head, crcs), "check")

    def _zeroed(self, head: bytes, name: str) -> bytes:
        return seal.with_digits(head, name, getattr(self.header, name), seal.UNSEALED)

    def _compare(self, found: str, name: str) -> None:
        if found != getattr(self.header, name):
            what = {"check": "checksum", "content": "content hash"}[name]
            raise InputError(
                f"{self.path}: the bytes do not match the {what} in the header; "
                f"the file was damaged or edited; {_COPY_AGAIN}"
            )


# A file to read: by path, or opened by a check of signatures.
Readable = Path | Container


def open_kind(file: Readable, kind: str) -> Container:
    """Open a file of a given kind."""
    container = file if isinstance(file, Container) else Container(file)
    if container.header.kind != kind:
        found, expected = with_article(container.header.kind), with_article(kind)
        raise InputError(f"{container.path}: is {found} file; expected {expected} file")
    return container


def read_head(path: Path) -> tuple[bytes, int]:
    """Read length and text of the header, if the length is plausible; and the file size."""
    with open_regular(path) as stream, reading(path):
        size = os.fstat(stream.fileno()).st_size
        start = stream.read(8)
        length = int.from_bytes(start, "little")
        _check_start(path, start, length, size)
        return start + stream.read(length), size


def is_plain(path: Path) -> bool:
    """Return whether a safetensors file is foreign; InputError for other files."""
    read_head(path)
    with _parsing(path), safe_open(path, "numpy") as opened:
        return "furlkit" not in (opened.metadata() or {})


def read_plain(path: Path) -> tuple[dict[str, np.ndarray], str]:
    """Read the tensors of a foreign safetensors file, and the file's sha256."""
    start = len(read_head(path)[0])
    with _parsing(path), safe_open(path, "numpy") as opened:
        entries = _entries(opened)
    with open_regular(path) as stream, reading(path):
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        arrays = {e.name: np.empty(e.shape, e.dtype) for e in entries}
        for entry in entries:
            buffer = seal.bytes_of(arrays[entry.name])
            _fill(path, buffer, start + entry.start, stream.fileno())
    return arrays, digest


def _fill(path: Path, buffer: np.ndarray, offset: int, handle: int) -> None:
    """Read bytes of an open file from `offset` on."""
    done = 0
    while done < len(buffer):
        with reading(path):
            count = os.preadv(handle, [buffer[done:].data], offset + done)
        if not count:
            raise InputError(f"{path}: became shorter while it was read")
        done += count


def _entries(opened: Any) -> list[Entry]:
    slices = ((name, opened.get_slice(name)) for name in opened.offset_keys())
    return located((n, s.get_dtype(), s.get_shape()) for n, s in slices)


@contextmanager
def _parsing(path: Path) -> Iterator[None]:
    """Raise furlkit's error if the library refuses a header."""
    try:
        with reading(path):
            yield
    except (SafetensorError, ValueError) as error:
        reason = str(error)[:200]
        raise InputError(
            f"{path}: truncated, damaged or not a safetensors file: {reason}; {_COPY_AGAIN}"
        ) from error


def _furlkit_header(path: Path, metadata: dict[str, str]) -> Header:
    if "furlkit" not in metadata:
        raise ForeignError(
            f"{path}: is a safetensors file, but not one of furlkit's: "
            "the metadata has no key 'furlkit'"
        )
    return parse_header(path, metadata["furlkit"])


def check_canonical(path: Path, head: bytes, header: Header, text: bytes) -> None:
    """Check that the header equals, byte by byte, furlkit's header for the content.

    The library merges duplicate names; the text then differs.
    """
    hashes = all(
        head.count(mark + getattr(header, name).encode()) == 1
        for name, mark in seal.MARKS.items()
    )
    if not hashes or head[8:].rstrip(b" ") != text:
        raise InputError(
            f"{path}: furlkit did not write this header: a name occurs "
            "twice, or another program has rewritten the file; re-create it"
        )


def _check_start(path: Path, start: bytes, length: int, size: int) -> None:
    # No text of these bytes: the file may be the secret of a site (files/secret.py).
    if size == _SECRET and length > size - 8:
        raise InputError(
            f"{path}: has {size} bytes and is no safetensors file; this may be the "
            "secret of a site, which must stay at the site: never send or print the file"
        )
    if size < 10:
        raise InputError(f"{path}: has {size} bytes, too few for a safetensors file")
    # A valid length may begin with these bytes too, but then the length fits the file.
    # A cut file too: its length has zeros at the end, unlike a pickle or a zip file.
    foreign = start.startswith((b"PK", b"\x80")) and any(start[4:])
    if length > size - 8 and foreign:
        raise InputError(
            f"{path}: is a pickle or zip file; furlkit reads safetensors only and "
            f"never unpickles. If PyTorch wrote it, convert it: {_conversion(path)}"
        )
    if length > size - 8 and start == b"-----BEG":
        raise InputError(f"{path}: is a signature, or a key; give the signed file")
    if length > size - 8 and start.lstrip().startswith(b"{"):
        raise InputError(
            f"{path}: is JSON, not a safetensors file; expected a furlkit file with tensors"
        )
    if length > size - 8:
        raise InputError(
            f"{path}: not a safetensors file, or truncated: the header is longer than "
            f"the file of {size} bytes; {_COPY_AGAIN}"
        )
    if length > LIMIT:
        raise InputError(
            f"{path}: the header takes {length} bytes, furlkit accepts {LIMIT}"
        )


# weights_only executes no code of the pickle.
_CONVERT = "; ".join(
    (
        "import sys, torch",
        "from safetensors.torch import save_file",
        's = torch.load(sys.argv[1], map_location="cpu", weights_only=True)',
        's = s.get("state_dict", s.get("model", s))',
        "s = {k: v.clone().contiguous() for k, v in s.items() if torch.is_tensor(v)}",
        "save_file(s, sys.argv[2])",
    )
)


def _conversion(path: Path) -> str:
    """Commands that convert a pickled state_dict to safetensors and use the result."""
    target = path.with_suffix(".safetensors")
    if target == path:
        target = path.with_suffix(".converted.safetensors")
    return (
        f"python -c '{_CONVERT}' {quote(str(path))} {quote(str(target))} && "
        f"furlkit init --from {quote(str(target))} ..."
    )
