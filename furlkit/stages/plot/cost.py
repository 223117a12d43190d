"""plot cost: what a score cost in bytes, rounds or local epochs, a line a method."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, parse_strict
from furlkit.files.container.read import unreadable
from furlkit.files.metrics import read_metrics
from furlkit.reports.figures.cost import LABELS, Cost, draw_cost
from furlkit.reports.figures.style import check_output, save
from furlkit.reports.ledger import File, read_ledger
from furlkit.reports.metrics import Score, is_share, read_score
from furlkit.reports.runs import check_runs, listed, planned_epochs
from furlkit.reports.text import byte_size, plain


@dataclass(frozen=True)
class Options:
    """`series` are labels with the folders of runs, several where there are seeds.

    `over` is one of `LABELS`; with `last` a run is only the model of its last round.
    """

    series: tuple[tuple[str, tuple[Path, ...]], ...]
    output: Path
    over: str = "bytes"
    last: bool = False
    value: str = "accuracy"
    protocol: str = "linear"
    title: str = ""
    dry_run: bool = False


class Point(NamedTuple):
    """The score of a run's global model after a round, and what it took until then.

    `epochs` is None where the files do not tell it.
    """

    folder: Path
    rounds: int
    epochs: int | None
    bytes: int
    value: float


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw scores of global models over what was spent to make them."""
    check_output(options.output)
    if options.over not in LABELS:
        raise UsageError(f"--over {options.over}: use one of {', '.join(LABELS)}")
    check_runs(options.series)
    costs = [_cost(label, folders, options) for label, folders in options.series]
    percent = is_share(options.value)
    if not options.dry_run:
        value, title = plain(options.value), plain(options.title)
        figure = draw_cost(costs, value, percent, title, options.over)
        save(figure, options.output)
    ends = "; ".join(_end(cost, percent, options.over) for cost in costs)
    would = "would draw " if options.dry_run else ""
    line = f"{would}{options.output}: {options.protocol} {options.value} of {ends}"
    data = [listed(cost) for cost in costs]
    return line, {"output": str(options.output), "over": options.over, "lines": data}


def _cost(label: str, folders: tuple[Path, ...], options: Options) -> Cost:
    """Means over runs of what was reached and what it took."""
    runs = [_points(folder, options) for folder in dict.fromkeys(folders)]
    groups = _groups([point for points in runs for point in points])
    groups.sort(key=lambda group: _amount(group, options.over))
    _check_places(label, [group[0] for group in groups], options)
    # Sorted values have one mean, to the last bit, whatever the order of the runs.
    values = [np.sort([point.value for point in group]) for group in groups]
    return Cost(
        plain(label),
        rounds=np.array([group[0].rounds for group in groups]),
        epochs=np.array([group[0].epochs for group in groups], object),
        bytes=np.array([_amount(group, "bytes") for group in groups]),
        mean=np.array([each.mean() for each in values]),
        std=np.array([each.std(ddof=1) if len(each) > 1 else 0 for each in values]),
        runs=np.array([len(each) for each in values]),
    )


def _groups(points: Sequence[Point]) -> list[list[Point]]:
    """Points of the same round after the same epochs, in the order of rounds.

    A run that does not tell its epochs goes with the others of its round, if these agree.
    """
    told: dict[int, set[int]] = {}
    for point in points:
        known = told.setdefault(point.rounds, set())
        known |= set() if point.epochs is None else {point.epochs}
    groups: dict[tuple[int, int | None], list[Point]] = {}
    for point in points:
        if point.epochs is None and len(told[point.rounds]) == 1:
            point = point._replace(epochs=min(told[point.rounds]))
        groups.setdefault((point.rounds, point.epochs), []).append(point)
    return [groups[key] for key in sorted(groups, key=lambda key: key[0])]


def _amount(group: Sequence[Point], over: str) -> float:
    return float(np.mean([getattr(point, over) for point in group]))


def _check_places(label: str, points: Sequence[Point], options: Options) -> None:
    """Refuse what would make a line jump up and down on one place, or to and fro.

    Bytes are as rounds here: how long clients train in a round does not change them.
    """
    by_epochs = options.over == "epochs"
    if by_epochs:
        _check_apart(label, points, "epochs")
    if not (by_epochs and options.last):
        _check_apart(label, points, "rounds")


def _check_apart(label: str, points: Sequence[Point], axis: str) -> None:
    seen: dict[int, Point] = {}
    for point in points:
        first = seen.setdefault(getattr(point, axis), point)
        if first is not point:
            raise UsageError(f"--series {label}: {_clash(first, point, axis)}")


def _clash(one: Point, other: Point, axis: str) -> str:
    who = f"{one.folder} and {other.folder}"
    if axis == "epochs":
        rounds = f"{one.rounds} and {other.rounds} rounds"
        found = f"are both at {one.epochs} local epochs, after {rounds}"
        cure = "--over rounds"
    else:
        first, second = (
            "unknown" if p.epochs is None else p.epochs for p in (one, other)
        )
        found = (
            f"are both at round {one.rounds}, after {first} and {second} local epochs"
        )
        cure = "--over epochs --last"
    return f"{who} {found}; give each a --series of its own, or draw {cure}"


def _points(folder: Path, options: Options) -> list[Point]:
    """A point for each round that has a score and a place on the axis."""
    ledger = read_ledger([folder])
    for warning in ledger.warnings:
        console.warn(warning)
    trained = _epochs(ledger.files)
    points = [
        Point(
            folder, round_, _epochs_until(round_, trained), ledger.until(round_), mean
        )
        for round_, mean in _means(_scores(folder, options))
    ]
    if options.over == "bytes":  # They stand in decades, and nothing is in none.
        points = [point for point in points if point.bytes]
    when = "after round 1 or later"
    if options.last:
        last = max(transfer.round for transfer in ledger.transfers)
        points = [point for point in points if point.rounds == last]
        when = f"after round {last}, its last"
    if not any(point.rounds for point in points):
        raise InputError(
            f"{folder}: has no {options.protocol} metrics of a global model {when}; "
            f"make them with furlkit evaluate {options.protocol}"
        )
    if options.over == "epochs" and any(point.epochs is None for point in points):
        unknown = next(number for number in count(1) if number not in trained)
        raise InputError(
            f"{folder}: no file of round {unknown} tells how many epochs its clients "
            "trained for, and --over epochs adds them up; keep what local-train writes "
            "in every round, or draw --over rounds"
        )
    return points


def _means(scores: Iterable[Score]) -> list[tuple[int, float]]:
    """Rounds in their order, and the mean of the scores of each."""
    rounds: dict[int, list[float]] = {}
    for score in scores:
        rounds.setdefault(score.round, []).append(score.value)
    return [(k, float(np.sort(values).mean())) for k, values in sorted(rounds.items())]


def _epochs(files: Iterable[File]) -> dict[int, int]:
    """The epochs of each round that tells them.

    Of clients that trained for different numbers the largest counts: a round takes as
    long as its slowest client, and nobody trained for the mean.
    """
    found: dict[int, list[int]] = {}
    for file in files:
        if file.stage == "local-train":
            epochs = planned_epochs(file.options) or 0
            found.setdefault(file.facts["round"], []).append(epochs)
    return {round_: max(every) for round_, every in found.items() if all(every)}


def _epochs_until(round_: int, trained: dict[int, int]) -> int | None:
    """The sum over rounds 1 to `round_`, if each of them is known."""
    past = [epochs for number, epochs in trained.items() if 1 <= number <= round_]
    return sum(past) if len(past) == round_ else None


def _scores(folder: Path, options: Options) -> list[Score]:
    """The wanted number of global models; the same result twice counts once."""
    found: dict[str, Score] = {}
    for path in sorted(folder.rglob("*.json")):
        for metrics in _metrics(path):
            if metrics.get("protocol") != options.protocol:
                continue
            score = read_score(path, "", metrics, options.value)
            if score.role == "global":
                found.setdefault(canonical(metrics), score)
    return list(found.values())


def _metrics(path: Path) -> Iterator[dict[str, Any]]:
    """A metrics file; JSON of another sort, like an export's, is passed by."""
    try:
        document = parse_strict(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        console.warn(f"{plain(str(path))}: is not JSON: {error}; left out")
        return
    if isinstance(document, dict) and document.get("kind") == "metrics":
        yield read_metrics(path)


def _end(cost: Cost, percent: bool, over: str) -> str:
    value = f"{100 * cost.mean[-1]:.2f} %" if percent else f"{cost.mean[-1]:.4g}"
    after = f"round {cost.rounds[-1]}"
    if over == "bytes":
        after += f" and {byte_size(round(cost.bytes[-1]))}"
    if over == "epochs":
        epochs = cost.epochs[-1]
        after += f" and {epochs} local epoch{'' if epochs == 1 else 's'}"
    return f"{cost.label} {value} after {after}".lstrip()
