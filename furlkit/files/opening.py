"""Opening of input files: regular files only, of a limited size.

A pipe would block, a device may be endless and a socket cannot be read: none is opened.
Text is read at once, with a limit on the size: the limits leave room for everything
that furlkit writes, and make hostile files cheap to refuse.
"""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader
from pathlib import Path
from typing import Any

from furlkit.errors import DiskError, InputError

LONGEST_TOML = 256 * 2**10  # The longest recipe in furlkit has 8 kB.
LONGEST_JSON = 16 * 2**20  # Scores of 1,000 classes, with confusions, take 6 MB.
LONGEST_LIST = 256 * 2**20  # Labels, indices or a journal: a line for each of millions.
LONGEST_NUMBER = 64  # Bits of a whole number in TOML.
_CHUNK = 2**20
_TYPES = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def open_regular(path: Path | str) -> BufferedReader:
    """Open a regular file for reading; refuse anything else without waiting."""
    return os.fdopen(open_handle(path), "rb")


def open_handle(path: Path | str) -> int:
    """Like `open_regular`, as a bare handle without the memory of a buffer."""
    try:
        # Opening a device may have side effects: check the type first. The file may be
        # exchanged in between: the second check refuses the new file.
        with reading(path):
            _check_regular(path, os.stat(path))
            handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except ValueError as error:  # A name in a file may contain a zero byte.
        raise InputError(f"{path}: cannot be the name of a file: {error}") from error
    try:
        _check_regular(path, os.fstat(handle))
    except InputError:
        os.close(handle)
        raise
    return handle


def open_in_place(path: Path, flags: int, mode: int = 0o666) -> int:
    """Open one of furlkit's files beside an output, to lock or to append.

    A link is refused, because furlkit would change the user's file behind the link; a
    pipe or a device is refused, because furlkit would wait.
    """
    with suppress(FileNotFoundError):
        _check_in_place(path, os.lstat(path))
    handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, mode)
    try:
        _check_in_place(path, os.fstat(handle))
    except DiskError:
        os.close(handle)
        raise
    return handle


def first_line(path: Path | str) -> bytes:
    """Return the first line of a text file; empty for binary files."""
    with open_regular(path) as stream, reading(path):
        line = stream.readline(_CHUNK)
    # Bytes 5 to 8 of a container are zeros: no header takes 4 GB. Text has no zeros.
    return b"" if b"\0" in line[:8] else line


def read_bytes(path: Path | str, most: int) -> bytes:
    """Read a regular file of at most `most` bytes."""
    with open_regular(path) as stream, reading(path):
        # read() allocates the whole length before it reads.
        size = min(os.fstat(stream.fileno()).st_size, most)
        content = stream.read(size + 1)
        if len(content) > size:
            content += stream.read(most + 1 - len(content))
    if len(content) > most:
        raise InputError(f"{path}: has more than {most:,} bytes, furlkit's limit")
    return content


def same_bytes(one: Path, other: Path) -> bool:
    """Compare two files byte by byte, independent of their headers."""
    with open_regular(one) as first, open_regular(other) as second, reading(one):
        while chunk := first.read(_CHUNK):
            if chunk != second.read(_CHUNK):
                return False
        return not second.read(1)


def read_toml(path: Path | str) -> dict[str, Any]:
    """Read the tables of a TOML file."""
    import tomllib  # Here, because most commands read no TOML.

    try:
        tables = tomllib.loads(read_toml_text(path))
        _check_numbers(tables)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not TOML: {error}") from error
    return tables


def _check_numbers(value: Any) -> None:
    """Check whole numbers: TOML has 64 bits; Python cannot print much longer ones."""
    if isinstance(value, int) and value.bit_length() > LONGEST_NUMBER:
        raise ValueError(f"a number has more than {LONGEST_NUMBER} bits")
    inner = value.values() if isinstance(value, dict) else value
    for one in inner if isinstance(value, dict | list) else ():
        _check_numbers(one)


def read_toml_text(path: Path | str) -> str:
    """Return the text of a TOML file, comments included."""
    try:
        return read_bytes(path, LONGEST_TOML).decode()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not TOML: {error}") from error


@contextmanager
def reading(path: Path | str) -> Iterator[None]:
    """Raise furlkit's errors for a file that cannot be opened or read."""
    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except IsADirectoryError as error:
        raise InputError(f"{path}: is a folder; expected a file") from error
    except OSError as error:
        raise DiskError(f"{path}: cannot read: {error.strerror or error}") from error


def _check_regular(path: Path | str, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind == stat.S_IFDIR:
        raise InputError(f"{path}: is a folder; expected a file")
    if kind != stat.S_IFREG:
        raise InputError(
            f"{path}: is {_TYPES.get(kind, 'no file')}; expected a regular file; "
            "write the content to a file first"
        )


def _check_in_place(path: Path, found: os.stat_result) -> None:
    kind = stat.S_IFMT(found.st_mode)
    if kind != stat.S_IFREG:
        raise DiskError(
            f"{path}: cannot write: it is {_TYPES.get(kind, 'no file')}, expected a "
            "regular file of furlkit's; remove it, then run this command again"
        )
