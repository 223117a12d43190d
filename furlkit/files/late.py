"""Input files that a network file system shows seconds after writing."""

import os
import time
from collections.abc import Iterable
from contextlib import suppress

from furlkit.errors import UsageError

VARIABLE = "FURLKIT_WAIT_FOR_FILES"  # Seconds; 0 or empty: do not wait.
BETWEEN = 0.5  # Seconds between two checks.


def wait_for(paths: Iterable[str]) -> float:
    """Wait until the files exist, for a limited time; return the seconds waited.

    After the limit the command continues and reports the missing file.
    """
    begin = time.monotonic()
    limit = begin + _seconds()
    missing = [path for path in paths if not os.path.exists(path)]
    if not missing:
        return 0.0
    while missing and time.monotonic() < limit:
        time.sleep(BETWEEN)
        for folder in {os.path.dirname(path) or "." for path in missing}:
            with suppress(OSError):
                os.listdir(folder)  # Makes a network file system ask the server again.
        missing = [path for path in missing if not os.path.exists(path)]
    return time.monotonic() - begin


def _seconds() -> float:
    text = os.environ.get(VARIABLE) or "0"
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        raise UsageError(f"{VARIABLE}={text}: expected a number of seconds")
    return found
