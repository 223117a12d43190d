"""How far a run has come, read from its files alone."""

import json
import os
from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.files.journal import Journal
from furlkit.files.lock import holder
from furlkit.recipes.expand import Plan, Step
from furlkit.recipes.removal import removals

DONE, STALE, RUNNING, MISSING = "done", "stale", "running", "missing"


class Status(NamedTuple):
    """The state of every step, and who makes those that are running."""

    plan: Plan
    states: list[str]
    holders: dict[int, str]

    def counted(self, stage: str | None = None) -> Counter:
        """How many steps, or files of a stage's clients, are in which state."""
        found: Counter = Counter()
        for step, state in zip(self.plan.steps, self.states, strict=True):
            if stage in (None, step.stage):
                found[state] += 1
        return found


def status(plan: Plan) -> Status:
    """Decide as make does: by what is there, and what is older than what it is made of."""
    times = _Times(path for gone in removals(plan) for path in _removed(gone))
    states: list[str] = []
    holders: dict[int, str] = {}
    remade: set[str] = set()
    for number, step in enumerate(plan.steps):
        state = _state(step, times, remade)
        if state != DONE:
            remade.update(step.outputs)
            if found := _holder(step):
                holders[number] = found
                state = RUNNING
        states.append(state)
    return Status(plan, states, holders)


def _removed(removal: Any) -> Iterable[str]:
    return removal.files if os.path.exists(removal.stamp) else ()


class _Times:
    """When files were written; those that were removed on purpose count as old."""

    def __init__(self, removed: Iterable[str]):
        self._known: dict[str, int | None] = dict.fromkeys(removed, 0)

    def of(self, path: str) -> int | None:
        """The time in nanoseconds; None for a file that is not there."""
        if path not in self._known:
            try:
                self._known[path] = os.stat(path).st_mtime_ns
            except OSError:
                self._known[path] = None
        return self._known[path]


def _state(step: Step, times: _Times, remade: set[str]) -> str:
    made = [times.of(path) for path in step.outputs]
    if None in made:
        return MISSING
    if made == [0] * len(made):
        return DONE
    before = [times.of(path) for path in step.after]
    oldest = min(time for time in made if time)
    if any(time is None or time > oldest for time in before):
        return STALE
    return STALE if not remade.isdisjoint(step.after) else DONE


def _holder(step: Step) -> str | None:
    found = (holder(Path(path)) for path in step.outputs)
    return next((name for name in found if name), None)


def seconds_left(found: Status) -> float | None:
    """The time that the trainings still to do will take, from those that are done.

    Trainings that run now go on side by side. None as long as no training is done.
    """
    spent: dict[str, list[float]] = {}
    left: Counter = Counter()
    for step, state in zip(found.plan.steps, found.states, strict=True):
        if not step.trains:
            continue
        if state == DONE:
            durations = map(_duration, step.outputs)
            spent.setdefault(step.stage, []).extend(d for d in durations if d)
        else:
            left[step.stage] += len(step.outputs)
    known = {stage: sum(times) / len(times) for stage, times in spent.items() if times}
    if not all(stage in known for stage in left):
        return None
    total = sum(count * known[stage] for stage, count in left.items())
    return total / max(1, len(found.holders))


def _duration(output: str) -> float:
    """Seconds from each start in a journal to the last line that follows it."""
    total = 0.0
    start: datetime | None = None
    last: datetime | None = None
    for line in [*Journal(Path(output)).read(), {"event": "start"}]:
        try:
            time: datetime | None = datetime.fromisoformat(str(line.get("time")))
        except ValueError:
            time = last
        if line.get("event") == "start":
            total += (last - start).total_seconds() if start and last else 0
            start = time
        last = time
    return total


def scores(found: Status) -> list[dict[str, Any]]:
    """The metrics of the server's models that are there, in the order of the plan."""
    entries = []
    for step, state in zip(found.plan.steps, found.states, strict=True):
        if state == DONE and step.command[0] == "evaluate" and len(step.clients) == 0:
            entry = {"stage": step.stage, "round": step.round, "file": step.outputs[-1]}
            entries.append(entry | _score(step.outputs[-1]))
    return entries


def _score(path: str) -> dict[str, Any]:
    try:
        metrics = json.loads(Path(path).read_text())
    except (OSError, ValueError):
        return {}
    known = metrics if isinstance(metrics, dict) else {}
    return {
        key: known[key] for key in ("protocol", "round", "accuracy") if key in known
    }


def bytes_on_disk(folder: Path) -> tuple[int, int]:
    """The number of files below a folder, and their bytes."""
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                sizes.append(os.stat(os.path.join(place, name)).st_size)
            except OSError:
                continue
    return len(sizes), sum(sizes)
