"""Headers of many files: tables of tensors that repeat are parsed once.

The clients of a run send equal tensors, so most headers of a run differ only in the
metadata. `Container` checks the first file with a table; for later files with equal bytes
around the metadata and an equal length of the body, the checks of the table hold too.
"""

import json
import re
from pathlib import Path
from typing import NamedTuple

from furlkit.files.container.header import Header, canonical, parse_header
from furlkit.files.container.read import Container, check_canonical, read_head

MOST_TABLES = 100  # In memory; a ResNet-50's table takes 40 kB.
# The metadata of furlkit's files, in canonical form; the group is a JSON string.
_METADATA = re.compile(
    rb'(?<="__metadata__":\{"format":"pt","furlkit":)("[^"\\]*(?:\\.[^"\\]*)*")(?=\})',
    re.DOTALL,
)


class Head(NamedTuple):
    """Header of a file, position of the first tensor, and bytes of the tensors."""

    header: Header
    start: int
    payload: int


class Heads:
    """Reader of headers that remembers tables of tensors."""

    def __init__(self) -> None:
        self._payloads: dict[tuple[bytes, bytes], int] = {}  # By bytes around metadata.

    def read(self, path: Path) -> Head:
        """Read a header; raise the errors of `Container`."""
        head, size = read_head(path)
        before, text, after = _divided(head)
        payload = self._payloads.get((before, after))
        if text and payload is not None and len(head) + payload == size:
            header = parse_header(path, text)
            middle = canonical(text).encode()
            check_canonical(path, head, header, before + middle + after)
            return Head(header, len(head), payload)
        opened = Container(path)
        if text and len(self._payloads) < MOST_TABLES:
            self._payloads[before, after] = opened.size
        return Head(opened.header, opened.body_start, opened.size)


def _divided(head: bytes) -> tuple[bytes, str, bytes]:
    """Text of furlkit's metadata and the bytes around it; empty for foreign files."""
    match = _METADATA.search(head)
    try:
        text = json.loads(match[0].decode("ascii")) if match else ""
    except ValueError:
        return b"", "", b""
    if not match or not text.isascii():  # furlkit writes ASCII.
        return b"", "", b""
    return head[8 : match.start()], text, head[match.end() :].rstrip(b" ")
