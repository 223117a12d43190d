"""Tasks of a run in the queues of Slurm and HyperQueue, if squeue or hq is installed."""

import json
import os
import subprocess
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS = 10  # Time limit: a controller that is down answers late.
# States of unfinished tasks: HyperQueue's word, then Slurm's.
HQ_STATES = {"waiting": "pending", "running": "running"}


@dataclass(frozen=True)
class Queue:
    """Number of tasks by state; `tasks`: name of the job and element of the array."""

    states: Counter[str] = field(default_factory=Counter)
    tasks: set[tuple[str, int]] = field(default_factory=set)


def queue_of(folder: Path) -> Queue:
    """Read the unfinished tasks of a run."""
    found = Queue()
    for line in _said("squeue", "--me", "-h", "-r", "-o", "%Z|%K|%T|%j").splitlines():
        where, _, task = line.partition("|")
        element, _, task = task.partition("|")
        state, _, name = task.partition("|")
        run, _, job = name.rpartition(":")
        if element.isdecimal() and _is_same(os.path.join(where, run), folder):
            found.states[state.lower()] += 1
            found.tasks.add((job, int(element)))
    for names, stats in _jobs(_said("hq", "job", "list", "--output-mode", "json")):
        if any(_is_same(name, folder) for name in names):
            for word, state in HQ_STATES.items():
                found.states[state] += int(stats.get(word, 0))
    return Queue(+found.states, found.tasks)


def _said(*words: str) -> str:
    """Output of a program; empty if the program is missing or fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS)
        return done.stdout if done.returncode == 0 else ""
    return ""


def _jobs(text: str) -> list[tuple[list[str], dict[str, Any]]]:
    """Folders of runs, and tasks by state, of each job of HyperQueue."""
    with suppress(ValueError, TypeError, LookupError):
        listed = json.loads(text or "[]")
        return [(each["name"].split(", "), dict(each["task_stats"])) for each in listed]
    return []


def _is_same(one: str, other: Path) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)
