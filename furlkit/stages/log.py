"""log: copy the points of runs into a tracker."""

import time
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from math import isclose
from os.path import relpath
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import DiskError, InputError, UsageError
from furlkit.files import receipts
from furlkit.files.lock import holding
from furlkit.inputs.settings import fill
from furlkit.recipes import records
from furlkit.recipes.expand import expand
from furlkit.recipes.finished import DONE
from furlkit.recipes.status import status
from furlkit.reports.text import counted, plain
from furlkit.reports.trackers import Tracker, open_tracker
from furlkit.reports.trackers.points import Point, points

EVERY = 2.0  # Seconds between two looks with --follow.
ROUNDING = 1e-6  # Trackers store values in single precision.


@dataclass(frozen=True)
class LogOptions:
    """Runs and tracker."""

    runs: tuple[Path, ...]
    to: str
    output: Path | None
    follow: bool


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Add the new points of the runs; with `follow`, until the runs are done."""
    options = fill(LogOptions, values)
    folder = options.output or Path(options.to)
    folders = records.run_folders(options.runs)
    _check_follow(options, folders)
    names = {each: run_name(each, folder) for each in folders}
    counts: Counter[str] = Counter()
    try:
        # The command line holds -o, but not the default folder.
        with holding(folder / "log"), closing(open_tracker(options.to, folder)) as to:
            while True:
                before = [*map(receipts.stamp, folders)]
                done = not options.follow or all(map(_is_done, folders))
                _add_new(to, names, counts)
                to.flush()
                if done:
                    break
                while [*map(receipts.stamp, folders)] == before:
                    time.sleep(EVERY)
    except OSError as error:
        raise DiskError(f"{folder}: cannot write: {error.strerror or error}") from error
    return _result(folder, folders, counts)


def _check_follow(options: LogOptions, folders: Iterable[Path]) -> None:
    for folder in folders if options.follow else ():
        if not (folder / receipts.NOTED).exists():
            raise UsageError(
                f"--follow: {folder} has no plan, so the end of the run is unknown; "
                "repeat the command without --follow instead"
            )


def run_name(run: Path, folder: Path) -> str:
    """Path of a run from the folder around the tracker, with `up` for `..`.

    The name is independent of the current folder and of other runs.
    """
    path = Path(relpath(run.resolve(), folder.resolve().parent))
    if path.name in ("", ".."):  # The tracker is inside the run.
        return plain(run.resolve().name)
    return "/".join("up" if part == ".." else plain(part) for part in path.parts)


def _is_done(folder: Path) -> bool:
    return all(s == DONE for s in status(expand(*records.load(folder))).states)


def _add_new(to: Tracker, names: dict[Path, str], counts: Counter[str]) -> None:
    """Add the points that the tracker does not contain."""
    for folder, name in names.items():
        seen, changed = 0, []
        for point in points(folder, name):
            seen, old = seen + 1, to.value(point)
            if old is None:
                to.add(point)
                counts["new"] += 1
            elif point.is_measured and not isclose(old, point.value, rel_tol=ROUNDING):
                changed.append(point)
        if not seen and not (folder / receipts.NOTED).exists():
            raise InputError(f"{folder}: has no journal and no score of furlkit")
        _warn_about(changed, folder)


def _warn_about(changed: list[Point], folder: Path) -> None:
    if changed:
        console.warn(
            f"{folder}: {counted(len(changed), 'point')} of the tracker, for example "
            f"{changed[0].tag} at step {changed[0].step}, had another value; the run was "
            "repeated, and the tracker keeps the old value; choose another -o"
        )


def _result(
    folder: Path, folders: list[Path], counts: Counter[str]
) -> tuple[str, dict[str, Any]]:
    runs = counted(len(folders), "run")
    line = f"{folder}: {counted(counts['new'], 'new point')} of {runs}"
    data = {"output": str(folder), "runs": [str(each) for each in folders],
            "new": counts["new"]}  # fmt: skip
    return line, data
