"""The cache: what can be computed again, kept outside the user's own folders.

images/KEY.safetensors     the decoded images of a folder, as a packed dataset
notes/NAME.json            what is known of files, by what the file system says of them
locks/NAME                 held while images are decoded

Files are written whole or not at all, so that processes may share the cache and be killed.
Whoever lacks space may remove any of it at any time.
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
# States of the files that this process has compared with their checksums.
_checked: set[tuple[int, ...]] = set()


def default_cache() -> Path | None:
    """The user's cache folder of furlkit, by the convention of the platform.

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
    """The cache, which is made if it is missing; None if the usual one cannot be used.

    Images may be confidential: only the user can look into it.
    """
    folder = given or default_cache()
    if folder is None:
        return None
    try:
        for each in (folder, *(folder / name for name in ("images", "notes", "locks"))):
            each.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not os.access(each, os.W_OK | os.X_OK):
                raise PermissionError(13, "it is not writable")
    except OSError as error:
        if given is None:
            return None
        raise DiskError(
            f"{given}: cannot be used as --cache: {error.strerror}; choose another folder"
        ) from error
    return folder


def cache_key(*parts: Any) -> str:
    """A name for what these values decide."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:40]


def images_path(cache: Path, key: str) -> Path:
    """Where decoded images are kept."""
    return cache / "images" / f"{key}.safetensors"


def read_note(cache: Path | None, name: str) -> dict[str, Any]:
    """What was noted under a name; nothing if the note is missing or damaged."""
    if cache is None:
        return {}
    with suppress(FurlkitError, ValueError, RecursionError):
        found = json.loads(read_bytes(cache / "notes" / f"{name}.json", LONGEST_LIST))
        return found if isinstance(found, dict) else {}
    return {}


def notes_beginning(cache: Path | None, start: str) -> list[dict[str, Any]]:
    """All notes whose names begin like this."""
    if cache is None:
        return []
    found = sorted((cache / "notes").glob(f"{start}*.json"))
    return [note for path in found if (note := read_note(cache, path.stem))]


def write_note(cache: Path | None, name: str, note: dict[str, Any]) -> None:
    """Note something; it does not matter if that fails."""
    if cache is not None:
        with suppress(DiskError):
            text = json.dumps(note, sort_keys=True).encode()
            write_bytes(cache / "notes" / f"{name}.json", text, flush=False)


@contextmanager
def waiting_for(
    cache: Path | None, name: str, tell: Callable[[], None]
) -> Iterator[None]:
    """Hold a lock of the cache, after whoever has it; `tell` is called before a wait.

    Without a cache, or on a file system without locks, nothing is held.
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
    """How much the decoded images take."""
    return sum(size for _, size, _ in _kept(cache))


def make_room(cache: Path, newest: Path) -> None:
    """Remove the images that were used longest ago while all take more than allowed.

    A process that has mapped them keeps them until it ends.
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
    """Compare the checksum of kept images, once in a process, and mark them as used.

    Images that were used later are removed later. `reach` is told how many bytes are
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
    """When each file of images was last used, its size and path; the oldest first."""
    found = []
    for path in (cache / "images").glob("*.safetensors"):
        with suppress(OSError):
            about = path.stat()
            found.append((about.st_mtime_ns, about.st_size, path))
    return sorted(found)
