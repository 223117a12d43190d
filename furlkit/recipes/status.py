"""Progress of a run, read from the run's files."""

import os
from collections import Counter
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from furlkit.errors import FurlkitError
from furlkit.files.clients import ClientId, client_order, is_client
from furlkit.files.journal import Journal, seconds_of
from furlkit.files.lock import holder
from furlkit.files.metrics import read_metrics
from furlkit.files.opening import LONGEST_LIST, read_bytes
from furlkit.recipes.engines import Queue
from furlkit.recipes.expand import Plan, Step, noted_in
from furlkit.recipes.finished import DONE, Finished
from furlkit.recipes.jobs import jobs, log_path

RUNNING = "running"
FAILED = "failed"
ENDED = "exit code "  # Start of the last line in the log of a failed job.
SAMPLE = 20  # Number of trainings per stage for estimates of time.


class Status(NamedTuple):
    """State of every step; `holders` and `errors` by the number of the step.

    `holders`: the process that runs the step now. `left`: the number of missing files.
    `reasons`: why a step is not finished.
    """

    plan: Plan
    states: list[str]
    holders: dict[int, str]
    left: list[int]
    errors: dict[int, str]
    reasons: dict[int, str]

    def counted(self, stage: str) -> Counter:
        """Number of steps of a stage by state."""
        steps = enumerate(self.plan.steps)
        numbers = [number for number, step in steps if step.stage == stage]
        return Counter(FAILED if n in self.errors else self.states[n] for n in numbers)


def status(plan: Plan, queue: Queue | None = None) -> Status:
    """Read the states of a run's steps, and the processes that run steps now.

    `queue` has the waiting tasks of Slurm or HyperQueue.
    """
    finished = Finished(plan)
    finished.save()
    states = list(finished.states)
    holders: dict[int, str] = {}
    for number, step in enumerate(plan.steps):
        names = (holder(Path(path)) for path in step.outputs)
        if states[number] != DONE and (found := next(filter(None, names), None)):
            holders[number], states[number] = found, RUNNING
    logged = _logged(plan, states, queue or Queue())
    errors = {
        k: e for k, e in (logged | finished.errors).items() if k not in holders
    }  # fmt: skip
    return Status(plan, states, holders, finished.left, errors, finished.reasons)


def _logged(plan: Plan, states: list[str], queue: Queue) -> dict[int, str]:
    """By number of a step that failed in a job, the last line of the job's log."""
    found: dict[int, str] = {}
    if not Path(noted_in(plan.run, "log")).is_dir():
        return found
    for job in jobs(plan):
        for element, number in enumerate(job.steps):
            if states[number] in (DONE, RUNNING) or (job.name, element) in queue.tasks:
                continue
            line = _last_line(log_path(plan, job, element))
            if line.startswith(ENDED):
                found[number] = line
    return found


def _last_line(path: str) -> str:
    try:
        text = read_bytes(path, LONGEST_LIST).decode(errors="replace").strip()
    except FurlkitError:
        return ""
    return text.rpartition("\n")[2]


def epoch(step: Step) -> int | None:
    """Last complete epoch of a running training."""
    running = (path for path in step.outputs if holder(Path(path)))
    lines = [line for path in running for line in Journal(Path(path)).read()]
    ended = [line.get("epoch") for line in lines if line.get("event") == "epoch"]
    return ended[-1] if ended and isinstance(ended[-1], int) else None


def waits_for(found: Status, number: int) -> list[int]:
    """Clients with missing files in a round."""
    steps = zip(found.plan.steps, found.states, strict=True)
    late = (s.clients for s, state in steps if s.round == number and state != DONE)
    trained = {client for clients in late for client in clients}
    return sorted(trained)


def seconds_left(found: Status) -> float | None:
    """Estimate the seconds for the remaining trainings from the last finished trainings.

    The estimate keeps the present number of parallel trainings. None before a training
    has finished.
    """
    outputs: dict[str, list[str]] = {}
    left: Counter = Counter()
    for step, count in zip(found.plan.steps, found.left, strict=True):
        if step.trains:
            left[step.stage] += count
            if not count:
                outputs.setdefault(step.stage, []).extend(step.outputs)
    spent = {
        stage: [d for d in map(_duration, outputs.get(stage, [])[-SAMPLE:]) if d]
        for stage in +left
    }
    if not all(spent.values()):
        return None
    total = sum(left[stage] * sum(times) / len(times) for stage, times in spent.items())
    running = (path for k in found.holders for path in found.plan.steps[k].outputs)
    under_way = sum(_duration(path) for path in running if holder(Path(path)))
    return max(0.0, total - under_way) / max(1, len(found.holders))


def images_per_second(found: Status) -> float | None:
    """Mean speed of the last trainings; None before an epoch has ended."""
    steps = zip(found.plan.steps, found.left, strict=True)
    done = [step for step, left in steps if step.trains and not left]
    now = [found.plan.steps[number] for number in found.holders]
    outputs = [path for step in [*done[-SAMPLE:], *now] for path in step.outputs]
    lines = (Journal(Path(path)).read() for path in outputs[-SAMPLE:])
    speeds = [
        line["samples_per_second"] for entries in lines for line in entries[-1:]
        if isinstance(line.get("samples_per_second"), int | float)
    ]  # fmt: skip
    return sum(speeds) / len(speeds) if speeds else None


def _duration(output: str) -> float:
    return seconds_of(Journal(Path(output)).read())


def scores(found: Status) -> list[dict[str, Any]]:
    """Metrics of the server's models so far, in the order of the plan."""
    wanted = {"protocol": str, "round": int, "accuracy": int | float}
    entries = []
    for step, state in zip(found.plan.steps, found.states, strict=True):
        if state == DONE and step.command[0] == "evaluate" and len(step.clients) == 0:
            entry = {"stage": step.stage, "round": step.round, "file": step.outputs[-1]}
            known = _readable(step.outputs[-1])
            names = [k for k in wanted if isinstance(known.get(k), wanted[k])]
            entries.append(entry | {name: known[name] for name in names})
    return entries


def suspects(found: Status) -> dict[ClientId, list[int]]:
    """By client, the rounds in which a report of aggregate lists the client (stands_out)."""
    rounds: dict[ClientId, list[int]] = {}
    for step, state in zip(found.plan.steps, found.states, strict=True):
        reports = [b for a, b in pairwise(step.command) if a == "--report"]
        for path in reports if state == DONE and step.round is not None else ():
            odd = _readable(path).get("stands_out")
            for client in filter(is_client, odd if isinstance(odd, list) else ()):
                rounds.setdefault(client, []).append(step.round or 0)
    return {client: rounds[client] for client in sorted(rounds, key=client_order)}


def _readable(path: str) -> dict[str, Any]:
    """Read a metrics file; empty for a broken file. The step of an edited file is stale."""
    try:
        return read_metrics(Path(path))
    except FurlkitError:
        return {}


def bytes_on_disk(folder: Path) -> tuple[int, int]:
    """Number of files below a folder, and the total number of bytes."""
    sizes = []
    for place, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                sizes.append(os.stat(os.path.join(place, name)).st_size)
    return len(sizes), sum(sizes)
