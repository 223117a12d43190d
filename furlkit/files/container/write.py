"""Writing of safetensors files, tensor after tensor and piece after piece.

The writer of the safetensors library takes the whole file at once, puts metadata keys
in random order, ignores the umask and does not fsync. The format is simple: 8 bytes of
length, a JSON header, the tensors.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit.errors import FurlkitError
from furlkit.files.container import seal
from furlkit.files.container.atomic import EVERYBODY, OWNER, replacing
from furlkit.files.container.header import LIMIT, Header, PublishedHeader
from furlkit.files.container.layout import Entry, place, table


class Blocks(NamedTuple):
    """A tensor computed while being written, from consecutive arrays."""

    dtype: np.dtype
    shape: tuple[int, ...]
    arrays: Iterable[np.ndarray]


Stored = np.ndarray | Blocks
RECORD_ENDING = ".record"


def write(
    path: Path, tensors: Mapping[str, Stored], header: Header, mode: int = EVERYBODY
) -> str:
    """Write tensors and header; return the content hash.

    Blocks are computed one tensor after another, in the order of the file. The record of
    a published file is written before the file appears: a kill leaves no file without
    the record.
    """
    placed = place(
        Entry(name, tensor.dtype.newbyteorder("<"), tensor.shape)
        for name, tensor in tensors.items()
    )
    head = _head(path, placed, header.unsealed())
    with replacing(path, mode=mode) as stream:
        digest, crcs = hashlib.sha256(head), []
        stream.write(head)
        for entry in placed:
            tensor, written = tensors[entry.name], 0
            arrays = tensor.arrays if isinstance(tensor, Blocks) else [tensor]
            stored = (np.ascontiguousarray(array, entry.dtype) for array in arrays)
            for piece in seal.regrouped(map(seal.bytes_of, stored)):
                digest.update(piece.data)
                crcs += seal.crcs_of(piece)
                written += stream.write(piece.data)
            if written != entry.size:
                raise ValueError(
                    f"{entry.name}: the blocks have {written} bytes, not {entry.size}"
                )
        content = digest.hexdigest()
        head = seal.with_digits(head, "content", seal.UNSEALED, content)
        check = seal.checksum(head, crcs)
        stream.seek(0)
        stream.write(seal.with_digits(head, "check", seal.UNSEALED, check))
        if isinstance(header, PublishedHeader):
            _write_record(path, header, content)
    return content


def record_of(path: Path) -> Path:
    """Path of the record beside a published file; couriers do not copy the name."""
    return path.with_name(path.name.removesuffix(".safetensors") + RECORD_ENDING)


def _write_record(output: Path, header: PublishedHeader, content: str) -> None:
    """Write the whole header of a published file, readable by the user only."""
    path, full = header.record or record_of(output), header.full
    facts = {"published": content, "kind": full.kind, "facts": full.facts}
    facts |= {**header.kept, "output": output.name}
    write(path, {}, replace(full, kind="record", facts=facts), OWNER)


def _head(path: Path, placed: list[Entry], header: Header) -> bytes:
    text = table(placed, {"format": "pt", "furlkit": header.to_json()})
    text += b" " * (-len(text) % 8)
    if len(text) > LIMIT:
        raise FurlkitError(
            f"{path}: the header would take {len(text)} bytes, furlkit allows {LIMIT}; "
            "nothing was written"
        )
    return len(text).to_bytes(8, "little") + text
