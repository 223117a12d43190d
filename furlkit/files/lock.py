"""A lock beside an output: one process at a time makes a file.

The operating system holds the lock and drops it when the process ends, however it ends,
so a lock file that was left behind by a dead process does not count.
"""

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from furlkit.errors import TooEarlyError

LOOKS = 10  # How often a lock that is taken is tried again, 10 ms apart.


def lock_path(output: Path) -> Path:
    """The lock of an output."""
    return output.with_name(f".{output.name}.lock")


@contextmanager
def holding(output: Path) -> Iterator[None]:
    """Hold an output's lock; a second process is refused and told who holds it.

    Where the folder cannot be written or has no locks, nothing is held: writing the
    output says what is wrong with the folder.
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
        for folder in made:  # The innermost first; one that is in use stays.
            with suppress(OSError):
                folder.rmdir()


def _acquire(output: Path) -> int | None:
    path = lock_path(output)
    while True:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            continue  # Another process has just removed the folder, which it had made.
        except OSError:
            return None
        try:
            _lock(handle)
        except BlockingIOError as error:
            os.close(handle)
            raise TooEarlyError(
                f"{output}: {holder(output) or 'another process'} is making it; wait "
                "for that, or stop it, then run the same command again"
            ) from error
        except OSError:  # A file system without locks.
            os.close(handle)
            with suppress(OSError):
                path.unlink()
            return None
        # Whoever held it before may have removed the file after we opened it.
        with suppress(OSError):
            if os.stat(path).st_ino == os.fstat(handle).st_ino:
                _sign(handle)
                return handle
        os.close(handle)


def _lock(handle: int) -> None:
    """Lock a file, or fail at once; `holder` has it for a moment when it looks."""
    for _ in range(LOOKS):
        with suppress(BlockingIOError):
            return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        time.sleep(0.01)
    return fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _sign(handle: int) -> None:
    signed = {"host": os.uname().nodename, "process": os.getpid()}
    os.ftruncate(handle, 0)
    os.write(handle, json.dumps(signed).encode())


def holder(output: Path) -> str | None:
    """Who holds an output's lock, as `process 4242 on HOST`; None if nobody does."""
    path = lock_path(output)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        try:
            signed = json.loads(os.read(handle, 4096))
            return f"process {signed['process']} on {signed['host']}"
        except (OSError, ValueError, KeyError, TypeError):
            return "another process"
    except OSError:
        return None
    finally:
        os.close(handle)
