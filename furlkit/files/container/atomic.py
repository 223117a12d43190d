"""Atomic writes: a file is written completely or not at all.

The bytes go to an unnamed file in the folder (or a hidden file, if the file system has
no unnamed files), are flushed to the disk, and then replace the old file.
"""

import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from furlkit.errors import DiskError
from furlkit.files.opening import open_in_place

EVERYBODY, OWNER = 0o666, 0o600  # Permissions of a file.


@contextmanager
def replacing(
    path: Path, flush: bool = True, mode: int = EVERYBODY
) -> Iterator[BinaryIO]:
    """Open a file for writing and reading; the file becomes `path` after the block.

    An exception inside the block leaves `path` unchanged and no other file. Without
    `flush` a crash of the machine may lose the file. The umask applies to `mode`, which
    the file has from the first byte.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{secrets.token_hex(6)}.part")
    try:
        _check_place(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        _remove_litter(path)
        with ExitStack() as held:  # The lock protects the part from removal as litter.
            stream, named = _open_part(part, mode)
            held.enter_context(stream)
            yield stream
            stream.flush()
            if flush:
                os.fsync(stream.fileno())
            if not named:
                _name(stream, part, mode, held)
            os.replace(part, path)
        if flush:
            _sync_folder(path.parent)
    except OSError as error:
        raise DiskError(
            f"{path}: cannot write: {error.strerror or error}; the previous file is "
            "unchanged; make room or choose another -o, then run this command again"
        ) from error
    finally:
        with suppress(OSError):
            part.unlink()


def write_bytes(
    path: Path, content: bytes, flush: bool = True, mode: int = EVERYBODY
) -> None:
    """Write a small file at once."""
    with replacing(path, flush, mode) as stream:
        stream.write(content)


def _check_place(path: Path) -> None:
    # A rename would replace a device too: as root, even /dev/null.
    if path.exists() and not path.is_file():
        what = "a folder" if path.is_dir() else "no regular file"
        raise DiskError(f"{path}: cannot write: it is {what}; choose another -o")


def _open_part(part: Path, mode: int) -> tuple[BinaryIO, bool]:
    """Open an unnamed file, which leaves no litter after a kill, or a hidden file."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):
        with suppress(OSError):
            unnamed = os.open(part.parent, os.O_TMPFILE | os.O_RDWR, mode)
            stream = os.fdopen(unnamed, "w+b")
            _lock(stream)
            return stream, False
    return _new(part, mode), True


def _new(part: Path, mode: int) -> BinaryIO:
    """Create a hidden file, again if another process removed it as litter."""
    while True:
        handle = os.open(part, os.O_CREAT | os.O_EXCL | os.O_RDWR, mode)
        stream = os.fdopen(handle, "w+b")
        _lock(stream)
        if part.exists():
            return stream
        stream.close()


def _lock(stream: BinaryIO) -> None:
    """Show that a live process writes the file; the lock ends with the process."""
    with suppress(OSError):  # A file system without locks.
        fcntl.flock(stream, fcntl.LOCK_EX)


def _remove_litter(path: Path) -> None:
    """Remove partial copies of the file, left by killed processes."""
    begin, form = f".{path.name}.", re.compile(r"[0-9a-f]{12}\.part")
    names: list[str] = []
    with suppress(OSError):  # The user may write into a folder but not list it.
        names = os.listdir(path.parent)
    for name in names:
        if name.startswith(begin) and form.fullmatch(name[len(begin) :]):
            with suppress(OSError, DiskError):
                _remove_unheld(path.with_name(name))


def _remove_unheld(part: Path) -> None:
    handle = open_in_place(part, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(part)
    finally:
        os.close(handle)


def _name(stream: BinaryIO, part: Path, mode: int, held: ExitStack) -> None:
    """Give an unnamed file a name, or make a named copy, held until the end."""
    folder = os.open(part.parent, os.O_RDONLY)
    try:
        # With a folder handle Python calls linkat and follows the link in /proc.
        source = f"/proc/self/fd/{stream.fileno()}"
        os.link(source, part.name, dst_dir_fd=folder, follow_symlinks=True)
    except OSError:
        stream.seek(0)
        copy = held.enter_context(_new(part, mode))
        shutil.copyfileobj(stream, copy, 2**20)
        copy.flush()
        os.fsync(copy.fileno())
    finally:
        os.close(folder)


def _sync_folder(folder: Path) -> None:
    # Some network file systems cannot fsync a folder; the rename has happened already.
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
