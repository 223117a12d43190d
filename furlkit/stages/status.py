"""status: the progress of a run."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import FurlkitError, UsageError
from furlkit.files import receipts
from furlkit.recipes import records
from furlkit.recipes.carried import carry
from furlkit.recipes.engines import queue_of
from furlkit.recipes.expand import expand
from furlkit.recipes.finished import DONE, MISSING, STALE, settle_times
from furlkit.recipes.forms import title
from furlkit.recipes.jobs import jobs, unfinished
from furlkit.recipes.read import Run
from furlkit.recipes.status import (
    Status,
    bytes_on_disk,
    epoch,
    images_per_second,
    scores,
    seconds_left,
    status,
    suspects,
    waits_for,
)
from furlkit.reports.text import counted, plain

EVERY = 2.0  # Seconds between two looks with --watch.
NAMES = {MISSING: "to do"}
NEWER = "an input is newer, or a later step needs the file again"
SHOWN = 8  # Maximum number of named stale steps.


def settle(folders: Iterable[Path], process: int | None) -> None:
    """Set file times, which make and sh compare; `process` carries the runs out.

    Before the first command of the run has ended, no time is set.
    """
    for folder in folders:
        one, group = _load_to_run(folder)
        if process is not None:
            carry(folder, process)
        settle_times(one, group)


def _load_to_run(folder: Path) -> tuple[Run, int]:
    """Return a run and the size of the groups; refuse a plan that must not be run."""
    if not (folder / receipts.NOTED).exists():
        raise UsageError(
            f"{folder / receipts.NOTED}: no such file; run this in the folder in "
            "which furlkit plan was run, or run furlkit plan again"
        )
    for name in records.changed_presets(folder):
        raise UsageError(f"{name}: has changed since the plan; run furlkit plan again")
    return records.load(folder)


def left(folders: Iterable[Path]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return the unfinished tasks of each job of runs, in shell assignments.

    todo_3=0,2 are the tasks of job 3; after_3 is for the jobs that wait for job 3.
    """
    for folder in folders:
        plan = expand(*_load_to_run(folder))
        tasks = [",".join(map(str, k)) for k in unfinished(plan, jobs(plan))]
        lines = (f"todo_{n}={found} after_{n}=" for n, found in enumerate(tasks))
        yield "\n".join(lines), {"run": str(folder), "left": tasks}


def run(values: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Report once; with `watch`, report until every step is done.

    One run is described in full, several in one line each. Printed plans call `settle`
    and `left`.
    """
    if values["settle"]:
        settle(values["runs"], values["by"])
        return
    if values["left"]:
        yield from left(values["runs"])
        return
    folders = []
    for folder in values["runs"]:
        runs = records.runs_in(folder)
        folders += runs
        if folder not in runs and (folder / receipts.NOTED).exists():
            console.info(
                f"{folder}: is planned and was never run; {counted(runs, 'run')} below"
            )
    found = [_look(folder, len(folders) > 1) for folder in folders]
    while values["watch"] and not values["scores"]:
        console.clear()
        if all(data["done"] == data["steps"] for _, data in found):
            break
        for line, data in found:
            console.result(line, data)
        time.sleep(EVERY)
        found = [_look(folder, len(folders) > 1) for folder in folders]
    for line, data in found:
        title = [data["run"]] if len(folders) > 1 else []
        table = "\n".join([*title, *_table(data["scores"])])
        yield (table if values["scores"] else line), data
    if values["check"]:
        _check(found)


def _check(found: Iterable[tuple[str, dict[str, Any]]]) -> None:
    """Raise if a run has stale or failed steps."""
    for _, data in found:
        stale, failed = len(data["stale"]), len(data["failed"])
        if stale or failed:
            raise FurlkitError(
                f"{data['run']}: {counted(stale, 'step')} stale and {failed:,} failed; "
                "run make again"
            )


def _look(folder: Path, short: bool) -> tuple[str, dict[str, Any]]:
    one, group = records.load(folder)
    queue = queue_of(folder)
    found = status(expand(one, group), queue)
    steps, states = found.plan.steps, found.states
    numbers = [number for number, state in enumerate(states) if state == STALE]
    stale = [title(steps[number]) for number in numbers]
    files, size = bytes_on_disk(folder)
    data = {
        "run": str(folder),
        "recipe": one.recipe.path.name,
        "steps": len(steps),
        "done": states.count(DONE),
        "rounds": one.rounds(),
        "round": _round(found),
        "phases": {
            phase: {"rounds": one.rounds(phase), "round": _round(found, phase)}
            for phase in one.phases[:-1]
        },
        "stages": {stage: dict(found.counted(stage)) for stage in found.plan.records},
        "running": [
            {"step": title(steps[number]), "by": who, "epoch": epoch(steps[number])}
            for number, who in found.holders.items()
        ],
        "stale": stale,
        "reasons": [found.reasons.get(number, NEWER) for number in numbers],
        "failed": [
            {"step": title(steps[number]), "error": error}
            for number, error in found.errors.items()
        ],
        "waits_for": waits_for(found, _round(found) + 1),
        "changed": records.changed_presets(folder),
        "scores": scores(found),
        "stands_out": suspects(found),
        "seconds_left": seconds_left(found),
        "images_per_second": images_per_second(found),
        "queue": dict(queue.states),
        "files": files,
        "bytes": size,
    }
    return _summary(data) if short else "\n".join(_lines(data, found)), data


def _round(found: Status, phase: str = "") -> int:
    """Return the last complete round of a phase."""
    unfinished = [
        step.round
        for step, state in zip(found.plan.steps, found.states, strict=True)
        if state != DONE and step.round is not None and step.phase == phase
    ]
    done = min(unfinished) - 1 if unfinished else found.plan.run.rounds(phase)
    return max(done, 0)


def _lines(data: dict[str, Any], found: Status) -> Iterator[str]:
    done = f"{data['done']:,} of {data['steps']:,} steps"
    phases = "".join(
        f"{phase} round {now['round']} of {now['rounds']}, "
        for phase, now in data["phases"].items()
    )
    yield (
        f"{data['run']}: {data['recipe']}, {done} done, {phases}round "
        f"{data['round']} of {data['rounds']}"
    )
    for stage in found.plan.records:
        counts = found.counted(stage)
        rest = [f"{counts[s]:,} {NAMES.get(s, s)}" for s in counts if s != DONE]
        yield f"  {stage:<12} {counts[DONE]:,} of {counts.total():,}" + (
            f" ({', '.join(rest)})" if rest else ""
        )
    for name in data["changed"]:
        yield f"changed: {name}, since the plan; run furlkit plan again"
    for entry in data["running"]:
        yield f"running: {_running(entry)}, {entry['by']}"
    if data["queue"]:
        yield f"queue: {_queue(data)}"
    for entry in data["failed"]:
        yield f"failed: {entry['step']}: {plain(entry['error'])}"
    if data["done"] < data["steps"] and not (data["running"] or data["queue"]):
        yield "running: nothing"
    if data["waits_for"] and data["round"] < data["rounds"]:
        yield f"round {data['round'] + 1} waits for {_clients(data['waits_for'])}"
    for name, why in [*zip(data["stale"], data["reasons"], strict=True)][:SHOWN]:
        yield f"stale: {name}: {plain(why)}"
    if len(data["stale"]) > SHOWN:
        yield f"stale: {len(data['stale']) - SHOWN:,} more"
    last = {score["stage"]: score for score in data["scores"] if "accuracy" in score}
    for score in last.values():
        where = score["file"] if score["round"] is None else f"round {score['round']}"
        yield f"score: {score['stage']} {100 * score['accuracy']:.2f} % ({where})"
    for client, rounds in data["stands_out"].items():
        yield f"stands out: client {client} in {_rounds(rounds)}"
    if data["done"] < data["steps"] and data["seconds_left"] is not None:
        yield f"left: about {_duration(data['seconds_left'])} of training{_speed(data)}"
    yield f"disk: {data['bytes']:,} bytes in {data['files']:,} files"


def _summary(data: dict[str, Any]) -> str:
    """Describe a run in a line."""
    parts = [
        f"{data['run']}: {data['done']:,} of {data['steps']:,} steps",
        f"round {data['round']} of {data['rounds']}",
        *(f"running {_running(entry)}" for entry in data["running"][:1]),
        *([f"queue {_queue(data)}"] if data["queue"] else []),
        *(f"{len(data[key])} {key}" for key in ("stale", "failed") if data[key]),
        *(f"{e['step']}: {plain(e['error'])}" for e in data["failed"][:1]),
    ]
    if data["waits_for"] and data["round"] < data["rounds"]:
        parts.append(f"waits for {_clients(data['waits_for'])}")
    if data["done"] < data["steps"] and data["seconds_left"] is not None:
        parts.append(f"about {_duration(data['seconds_left'])} left")
    return ", ".join(parts)


def _queue(data: dict[str, Any]) -> str:
    return ", ".join(f"{count:,} {state}" for state, count in data["queue"].items())


def _speed(data: dict[str, Any]) -> str:
    speed = data["images_per_second"]
    return "" if speed is None else f", {speed:,.0f} images/s in each"


def _running(entry: dict[str, Any]) -> str:
    epoch = "" if entry["epoch"] is None else f", epoch {entry['epoch']} done"
    return f"{entry['step']}{epoch}"


def _clients(numbers: list[int]) -> str:
    names = ",".join(map(str, numbers[:SHOWN])) + ",..." * (len(numbers) > SHOWN)
    return f"client{'s' * (len(numbers) > 1)} {names}"


def _table(scores: list[dict[str, Any]]) -> Iterator[str]:
    """Yield accuracies in percent, a line for each round, a column for each stage."""
    known = {(s["round"], s["stage"]): s["accuracy"] for s in scores if "accuracy" in s}
    stages = list(dict.fromkeys(stage for _, stage in known))
    yield "round" + "".join(f"  {stage:>10}" for stage in stages)
    numbers = sorted({number for number, _ in known if number is not None})
    # Stages that run once, after the last round.
    after = [None] if any(number is None for number, _ in known) else []
    for number in [*numbers, *after]:
        cells = [known.get((number, stage)) for stage in stages]
        shown = ["" if cell is None else f"{100 * cell:.2f}" for cell in cells]
        name = "end" if number is None else number
        yield f"{name:>5}" + "".join(f"  {cell:>10}" for cell in shown)


def _rounds(numbers: list[int]) -> str:
    if len(numbers) == 1:
        return f"round {numbers[0]}"
    return f"{len(numbers):,} rounds, {numbers[0]} to {numbers[-1]}"


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"
