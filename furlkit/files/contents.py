"""Content hashes of files, with a cache keyed by size, inode and times.

The hash of a furlkit file with tensors is the `content` of the file's header, if the size
of the file fits the header; the hash of any other file is the sha256 of the bytes.
"""

import hashlib
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

from furlkit.errors import FurlkitError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.opening import LONGEST_LIST, open_regular, read_bytes

_LENGTH = 8  # Bytes of the length of a safetensors header.
_LONGEST = 4 * 2**20  # The limit in `container.header`, which loads numpy.


def content_of(path: str) -> str | None:
    """Return the content hash of a file; None without a regular file."""
    try:
        with open_regular(path) as stream:
            # The hash of a furlkit file of the right size; bytes are not compared.
            if found := _in_header(stream.read(_LENGTH), stream):
                return found
            stream.seek(0)
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except (FurlkitError, OSError):
        return None


def _in_header(begin: bytes, stream: Any) -> str | None:
    length = int.from_bytes(begin, "little")
    if len(begin) < _LENGTH or not 2 <= length <= _LONGEST:
        return None
    with suppress(ValueError, LookupError, TypeError, RecursionError):
        header = json.loads(stream.read(length))
        noted = json.loads(header.pop("__metadata__")["furlkit"])
        end = max((entry["data_offsets"][1] for entry in header.values()), default=0)
        if os.fstat(stream.fileno()).st_size == _LENGTH + length + end:
            return str(noted["content"])
    return None


class Contents:
    """Content hashes of many files; `save` stores the hashes for the next process."""

    def __init__(self, cache: Path):
        self._cache = cache
        self._saved = _read(cache)
        self._now: dict[str, list] = {}
        self._known: dict[str, str | None] = {}

    def of(self, path: str) -> str | None:
        """Return the content hash of a file; an unchanged file is not opened."""
        if path not in self._known:
            self._known[path] = self._look(path)
        return self._known[path]

    def _look(self, path: str) -> str | None:
        try:
            key = _key(path)
        except (OSError, ValueError):
            return None
        *known, content = self._saved.get(path) or [None]
        if known != key:
            content = content_of(path)
        if content is not None:
            self._now[path] = [*key, content]
        return content

    def set_time(self, path: str, time: int) -> None:
        """Set the time of a file, in nanoseconds; the cached hash stays valid."""
        content = self.of(path)
        with suppress(OSError):
            os.utime(path, ns=(time, time))
            self._now[path] = [*_key(path), content]

    def save(self) -> None:
        """Write the cache if it has changed; a read-only folder gets no cache."""
        if self._now != self._saved:
            text = json.dumps(self._now, separators=(",", ":"))
            with suppress(FurlkitError):
                write_bytes(self._cache, text.encode(), flush=False)


def _key(path: str) -> list[int]:
    found = os.stat(path)
    return [found.st_size, found.st_ino, found.st_mtime_ns, found.st_ctime_ns]


def _read(cache: Path) -> dict[str, list]:
    try:
        found = json.loads(read_bytes(cache, LONGEST_LIST))
        return {path: entry for path, entry in found.items() if len(entry) == 5}
    except (FurlkitError, ValueError, TypeError, AttributeError, RecursionError):
        return {}
