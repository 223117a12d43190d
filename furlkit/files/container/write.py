"""Writing safetensors files, tensor after tensor and piece after piece.

The writer of the safetensors library takes all tensors at once, puts metadata keys in
random order, ignores the umask and does not fsync. The format is simple: 8 bytes of
length, a JSON header, the tensors.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from furlkit.errors import FurlkitError
from furlkit.files.container import seal
from furlkit.files.container.atomic import replacing
from furlkit.files.container.header import LIMIT, Header
from furlkit.files.container.layout import Entry, place, table

Pieces = Callable[[Entry], Iterable[np.ndarray]]


def write(path: Path, tensors: dict[str, np.ndarray], header: Header) -> Header:
    """Write tensors and header; gives the header with its hashes."""
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
    """Write tensors that are computed one after the other, in pieces.

    `pieces(entry)` yields arrays whose bytes, one after another, are the tensor; it is
    called once for each entry, in the order of the file.
    """
    placed = place(entries)
    head = _head(path, placed, header.unsealed())
    with replacing(path) as stream:
        digest, crcs = hashlib.sha256(head), []
        stream.write(head)
        for entry in placed:
            written = 0
            for piece in seal.regrouped(map(seal.bytes_of, pieces(entry))):
                digest.update(piece.data)
                crcs += seal.crcs_of(piece)
                written += stream.write(piece.data)
            if written != entry.size:
                raise ValueError(
                    f"{entry.name}: its pieces have {written} bytes, not {entry.size}"
                )
        content = digest.hexdigest()
        head = seal.with_digits(head, "content", seal.UNSEALED, content)
        checksum = seal.checksum(head, crcs)
        stream.seek(0)
        stream.write(seal.with_digits(head, "check", seal.UNSEALED, checksum))
    return replace(header, content=content, check=checksum)


def _head(path: Path, placed: list[Entry], header: Header) -> bytes:
    text = table(placed, {"format": "pt", "furlkit": header.to_json()})
    text += b" " * (-len(text) % 8)
    if len(text) > LIMIT:
        raise FurlkitError(
            f"{path}: its header would take {len(text)} bytes, furlkit accepts {LIMIT}; "
            "nothing was written"
        )
    return len(text).to_bytes(8, "little") + text
