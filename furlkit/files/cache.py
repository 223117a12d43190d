"""Cache: results that furlkit can recompute, outside the user's data folders.

images/KEY.safetensors     decoded images of a folder, as a packed dataset
notes/NAME.json            facts about files, keyed by size, inode and times
locks/NAME                 held while images are decoded

Files are written completely or not at all: processes may share the cache and be killed.
Users may delete any of these files at any time.
The checksum of images finds damage, not forgery: whoever may write into the folder may
write other images, notes and checksums, so the folder is the user's alone.
"""

import fcntl
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from furlkit.errors import DiskError, FurlkitError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.read import Container
from furlkit.files.opening import LONGEST_LIST, open_in_place, read_bytes, reading

MOST_BYTES = 20 * 10**9
# States of the files whose checksums this process has compared.
_checked: set[tuple[int, ...]] = set()


def default_cache() -> Path | None:
    """Return the user's cache folder for furlkit, by the platform's convention.

    None if the user has no home folder, as in some containers.
    """
    given = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if given.is_absolute():
        return given / "furlkit"
    home = Path("~/Library/Caches" if sys.platform == "darwin" else "~/.cache")
    with suppress(RuntimeError):
        folder = home.expanduser()
        return folder / "furlkit" if folder.is_absolute() else None
    return None


def open_cache(given: Path | None) -> Path | None:
    """Return the cache, created if missing; None if the default cache is unusable.

    Images may be confidential: only the user can read the cache.
    """
    folder = given or default_cache()
    if folder is None:
        return None
    try:
        for each in (folder, *(folder / name for name in ("images", "notes", "locks"))):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(each, os.W_OK | os.X_OK):
                raise PermissionError(13, "not writable")
    except OSError as error:
        if given is None:
            return None
        raise DiskError(
            f"{given}: cannot be used as --cache: {error.strerror}; choose another folder"
        ) from error
    return folder


def cache_key(*parts: Any) -> str:
    """Return a file name derived from these values."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def images_path(cache: Path, key: str) -> Path:
    """Path of a file of decoded images."""
    return cache / "images" / f"{key}.safetensors"


def read_note(cache: Path | None, name: str) -> dict[str, Any]:
    """Read a note; empty if the note is missing or damaged."""
    if cache is None:
        return {}
    with suppress(FurlkitError, ValueError, RecursionError):
        found = json.loads(read_bytes(cache / "notes" / f"{name}.json", LONGEST_LIST))
        return found if isinstance(found, dict) else {}
    return {}


def notes_beginning(cache: Path | None, start: str) -> list[dict[str, Any]]:
    """Read every note with a name that begins with `start`."""
    if cache is None:
        return []
    found = sorted((cache / "notes").glob(f"{start}*.json"))
    return [note for path in found if (note := read_note(cache, path.stem))]


def write_note(cache: Path | None, name: str, note: dict[str, Any]) -> None:
    """Write a note; failures are ignored."""
    if cache is not None:
        with suppress(DiskError):
            text = json.dumps(note, sort_keys=True).encode()
            write_bytes(cache / "notes" / f"{name}.json", text, flush=False)


@contextmanager
def waiting_for(
    cache: Path | None, name: str, tell: Callable[[], None]
) -> Iterator[None]:
    """Hold a lock of the cache; calls `tell` before waiting for another process.

    Without a cache, or on a file system without locks, no lock is held.
    """
    handle = None
    if cache is not None:
        with suppress(OSError, DiskError):
            lock = cache / "locks" / name
            handle = open_in_place(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if handle is not None:
            _lock(handle, tell)
        yield
    finally:
        if handle is not None:
            os.close(handle)


def _lock(handle: int, tell: Callable[[], None]) -> None:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        tell()
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError:
        return


def bytes_in(cache: Path) -> int:
    """Number of bytes of the decoded images."""
    return sum(size for _, size, _ in _kept(cache))


def make_room(cache: Path, newest: Path) -> None:
    """Remove the least recently used images until at most MOST_BYTES remain.

    A process that has mapped removed images can read them until the process ends.
    """
    kept = _kept(cache)
    total = sum(size for _, size, _ in kept)
    for _, size, path in kept:
        if total <= MOST_BYTES:
            return
        if path != newest:
            drop(path)
            total -= size


def drop(path: Path) -> None:
    """Remove images from the cache."""
    with suppress(OSError):
        path.unlink()


def use_images(path: Path, reach: Callable[[int], None]) -> None:
    """Compare the checksum of cached images once per process; mark them as used.

    `make_room` removes recently used images last. `reach` receives the number of bytes
    compared.
    """
    if _state(path) not in _checked:
        Container(path).check_body(reach)
    with suppress(OSError):
        os.utime(path)
        _checked.add(_state(path))


def _state(path: Path) -> tuple[int, ...]:
    with reading(path):
        about = path.stat()
    times = about.st_mtime_ns, about.st_ctime_ns
    return about.st_dev, about.st_ino, about.st_size, *times


def _kept(cache: Path) -> list[tuple[int, int, Path]]:
    """Time of last use, size and path of each file of images; oldest first."""
    found = []
    for path in (cache / "images").glob("*.safetensors"):
        with suppress(OSError):
            about = path.stat()
            found.append((about.st_mtime_ns, about.st_size, path))
    return sorted(found)
