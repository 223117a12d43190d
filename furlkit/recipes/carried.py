"""The process that carries out a run: the process of make or sh started last."""

import json
import os
from contextlib import suppress
from pathlib import Path

from furlkit.errors import FurlkitError, TooEarlyError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.lock import holding
from furlkit.files.opening import read_bytes

NAME = "plan/carried.json"
LONGEST = 2**12


def carry(folder: Path, process: int) -> None:
    """Note that a process carries out a run; refuse if another process still does."""
    path = folder / NAME
    mine = {"host": os.uname().nodename, "process": process, "start": _start(process)}
    with holding(path):
        if (other := _noted(path)) and other != mine and _lives(other):
            raise TooEarlyError(
                f"{folder}: process {other['process']} on {other['host']} carries out "
                "this run; wait for it, or stop it, then run the same command again"
            )
        write_bytes(path, json.dumps(mine).encode(), flush=False)


def _noted(path: Path) -> dict:
    try:
        found = json.loads(read_bytes(path, LONGEST))
        return {key: found[key] for key in ("host", "process", "start")}
    except (FurlkitError, ValueError, LookupError, TypeError, RecursionError):
        return {}


def _lives(noted: dict) -> bool:
    """Return whether the noted process runs on this machine; compare start times too."""
    if noted["host"] != os.uname().nodename or type(noted["process"]) is not int:
        return False
    return noted["start"] is not None and _start(noted["process"]) == noted["start"]


def _start(process: int) -> str | None:
    """Start time of a process; None if the process has ended or /proc has no entry."""
    with suppress(OSError, ValueError, IndexError):
        text = Path(f"/proc/{process}/stat").read_text()
        state, *fields = text.rpartition(")")[2].split()
        return None if state in "ZX" else fields[18]
    return None
