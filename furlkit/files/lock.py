"""Lock beside an output: one process at a time writes a file.

The operating system holds the lock and releases it at the end of the process, even
after a kill. A lock file left behind by a dead process therefore has no effect.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from furlkit.errors import DiskError, TooEarlyError
from furlkit.files.opening import open_in_place

PATIENCE = 60.0  # Seconds to wait for processes that only look at a lock.
ATTEMPTS = 1000  # Attempts to create a lock that other processes remove.
LONGEST = 4096  # Bytes of a lock file.


def lock_path(output: Path) -> Path:
    """Path of the lock file of an output."""
    return output.with_name(f".{output.name}.lock")


@contextmanager
def holding(output: Path) -> Iterator[None]:
    """Hold an output's lock; refuse with the holder's name if another process has it.

    In a folder without write permission or without locks, no lock is held: writing the
    output will report the problem.
    """
    made = [folder for folder in output.parents if not folder.exists()]
    handle = _acquire(output)
    try:
        yield
    finally:
        if handle is not None:
            with suppress(OSError):
                lock_path(output).unlink()
            os.close(handle)
        for folder in made:  # Innermost first; folders in use remain.
            with suppress(OSError):
                folder.rmdir()


def _acquire(output: Path) -> int | None:
    path = lock_path(output)
    for _ in range(ATTEMPTS):
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = open_in_place(path, os.O_RDWR | os.O_CREAT)
        except FileNotFoundError:
            continue  # Another process has just removed the folder.
        except OSError:
            if holder(output):  # Another user's lock: readable, not writable.
                raise _is_being_made(output) from None
            return None
        try:
            if not _lock(output, handle):  # A file system without locks.
                os.close(handle)
                with suppress(OSError):
                    path.unlink()
                return None
            if _is_current(output, handle):
                _sign(path, handle)
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)
    raise TooEarlyError(
        f"{output}: other processes removed the lock or the folder {ATTEMPTS} times; "
        "stop them, then run this command again"
    )


def _lock(output: Path, handle: int) -> bool:
    """Lock a file, or raise at once; False on a file system without locks.

    A process that makes the output has an exclusive lock. A process that calls `holder`
    has a shared lock for a moment, or longer if the system stops it at that moment: the
    moment's end is worth waiting for.
    """
    end = time.monotonic() + PATIENCE
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            if not _shares(handle) or time.monotonic() > end:
                raise _is_being_made(output) from None
        except OSError:
            return False
        time.sleep(0.01)


def _shares(handle: int) -> bool:
    """Return whether a file can be locked beside its holders: all of them only look."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return True


def _is_being_made(output: Path) -> TooEarlyError:
    return TooEarlyError(
        f"{output}: {holder(output) or 'another process'} is making it; wait, or stop "
        "the process, then run this command again"
    )


def _is_current(output: Path, handle: int) -> bool:
    """Return False if the last holder removed the file after we opened it."""
    with suppress(OSError):
        return os.lstat(lock_path(output)).st_ino == os.fstat(handle).st_ino
    return False


def _sign(path: Path, handle: int) -> None:
    """Write host and process into the lock file, unless another program wrote it."""
    text = os.pread(handle, LONGEST, 0)
    # An empty file may have any owner: some network file systems set a fixed owner.
    if text and (_signature(text) is None or os.fstat(handle).st_uid != os.geteuid()):
        raise DiskError(
            f"{path}: was not written by furlkit, or by another user; remove it or "
            "choose another -o, then run this command again"
        )
    signed = {"host": os.uname().nodename, "process": os.getpid()}
    with suppress(OSError):  # On a full disk the lock works without a signature.
        os.ftruncate(handle, 0)
        os.write(handle, json.dumps(signed).encode())


def _signature(text: bytes) -> str | None:
    with suppress(ValueError, KeyError, TypeError):
        signed = json.loads(text)
        return f"process {signed['process']} on {signed['host']}"
    return None


def holder(output: Path) -> str | None:
    """Return the holder of a lock, like `process 4242 on HOST`; None if not held."""
    try:
        handle = open_in_place(lock_path(output), os.O_RDONLY)
    except (OSError, DiskError):
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        with suppress(OSError):
            return _signature(os.pread(handle, LONGEST, 0)) or "another process"
        return "another process"
    except OSError:
        return None
    finally:
        os.close(handle)
