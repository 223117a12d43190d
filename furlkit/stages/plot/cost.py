"""plot cost: scores over their cost in bytes, rounds or local epochs, by method."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical
from furlkit.reports.conditions import Measured, check_alike, measured
from furlkit.reports.figures import Frame
from furlkit.reports.ledger import read_ledger
from furlkit.reports.metrics import (
    Score,
    Value,
    check_labels,
    metrics_below,
    protocol_of,
    read_score,
)
from furlkit.reports.runs import File, planned_epochs
from furlkit.reports.summary import Line, grouped, summarise
from furlkit.reports.text import byte_size, counted, plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture, runs_of


class Point(NamedTuple):
    """Score of a run's global model after a round, and the cost until then.

    `epochs` is None if the files do not record epochs.
    """

    folder: Path
    rounds: int
    epochs: int | None
    bytes: float
    value: float

    def __str__(self) -> str:
        return f"{self.folder} (round {self.rounds}, {self.epochs} local epochs)"


@picture
def run(
    series: Series,
    over: str,
    last: bool,
    value: str,
    protocol: str,
    allow_different: tuple[str, ...],
    frame: Frame,
) -> Picture:
    """Draw scores of global models over their costs.

    With `last`, draw only the last round of each run.
    """
    check_labels([label for label, _ in series])
    series = runs_of(series)
    check_alike(list(_conditions(series, protocol)), allow_different)
    shown = Value(plain(value), (plain(protocol),))
    lines, ends, data = [], [], []
    for label, folders in series:
        runs = (_points(f, over, last, value, protocol) for f in folders)
        line, costs = _line(label, [point for run in runs for point in run], over, last)
        lines.append(line)
        data.append(line.to_json(**costs))
        end = f"{line.label} {shown.show(line.mean[-1], unit=' %')} after round {line.rounds[-1]}"
        if over == "bytes":
            end += f" and {byte_size(round(line.x[-1]))}"
        if over == "epochs":
            end += f" and {counted(int(line.x[-1]), 'local epoch')}"
        ends.append(end.lstrip())
    return (
        lambda: figure("lines:draw_lines")(lines, shown, frame, over),
        f"{protocol} {value} of {'; '.join(ends)}",
        {"over": over, "lines": data},
    )


def _conditions(series: Series, protocol: str) -> Iterator[Measured]:
    """Conditions under which the runs were scored."""
    for label, folders in series:
        for path, metrics in (file for f in folders for file in metrics_below(f)):
            if metrics.get("protocol") == protocol:
                yield measured(label, path, protocol_of(metrics), metrics)


def _line(
    label: str, points: Sequence[Point], over: str, last: bool
) -> tuple[Line, dict[str, list]]:
    """Means over the runs at each position of the axis, and their costs."""
    # Bytes depend on rounds, for any number of epochs in a round.
    place = "epochs" if over == "epochs" else "rounds"
    if place == "epochs":
        _check_agreement(label, points, "epochs", "rounds", "--over rounds")
    if place == "rounds" or not last:
        _check_agreement(label, points, "rounds", "epochs", "--over epochs --last")
    groups = sorted(
        grouped(points, attrgetter(place)).values(),
        key=lambda group: summarise(map(attrgetter(over), group)).mean,
    )
    known = [[point.epochs for point in group] for group in groups]
    costs: dict[str, list] = {
        "rounds": [group[0].rounds for group in groups],
        "epochs": [next(filter(None, epochs), epochs[0]) for epochs in known],
        "bytes": [summarise(point.bytes for point in group).mean for group in groups],
    }
    values = [summarise(point.value for point in group) for group in groups]
    return Line.of(plain(label), costs[over], costs["rounds"], values), costs


def _check_agreement(
    label: str, points: Sequence[Point], place: str, other: str, cure: str
) -> None:
    """Refuse to average runs that share `place` and differ in `other`."""
    known = (point for point in points if getattr(point, other) is not None)
    ordered = sorted(known, key=lambda point: point.rounds)
    for first, *others in grouped(ordered, attrgetter(place)).values():
        for point in others:
            if getattr(first, other) != getattr(point, other):
                raise UsageError(
                    f"--series {label}: {first} and {point} have the same number of "
                    f"{place}; use separate --series, or draw {cure}"
                )


def _points(
    folder: Path, over: str, last: bool, value: str, protocol: str
) -> list[Point]:
    """Points of the rounds with a score and a position on the axis."""
    ledger = read_ledger([folder])
    epochs = _epochs(ledger.files)
    end = max(transfer.round for transfer in ledger.transfers)
    points = []
    for round_, mean in _scores(folder, value, protocol):
        # The sum is known if every round up to `round_` is known.
        past = [n for number, n in epochs.items() if 1 <= number <= round_]
        trained = sum(past) if len(past) == round_ else None
        cost = ledger.until(round_)
        # The axis of bytes is logarithmic and has no zero.
        if (cost or over != "bytes") and (round_ == end or not last):
            points.append(Point(folder, round_, trained, cost, mean))
    if not any(point.rounds for point in points):
        when = f"the last round {end}" if last else "round 1 or later"
        raise InputError(
            f"{folder}: has no {protocol} metrics of a global model after {when}; "
            f"create metrics with furlkit evaluate {protocol}"
        )
    if over == "epochs" and any(point.epochs is None for point in points):
        unknown = next(number for number in count(1) if number not in epochs)
        raise InputError(
            f"{folder}: no file of round {unknown} records the number of epochs, which "
            "--over epochs adds up; keep the files of local-train of every round, or "
            "draw --over rounds"
        )
    return points


def _epochs(files: Iterable[File]) -> dict[int, int]:
    """Epochs of each round, if every file records them.

    If numbers differ between clients, the largest: a round takes the time of the
    slowest client.
    """
    trained = (file for file in files if file.stage == "local-train")
    rounds = grouped(trained, lambda file: file.facts["round"])
    every = {r: [planned_epochs(f.options) or 0 for f in rounds[r]] for r in rounds}
    return {round_: max(epochs) for round_, epochs in every.items() if all(epochs)}


def _scores(folder: Path, value: str, protocol: str) -> Iterator[tuple[int, float]]:
    """Rounds and scores of global models; duplicate results are dropped."""
    scores: dict[str, Score] = {}
    for path, metrics in metrics_below(folder):
        if metrics.get("protocol") == protocol:
            scores[canonical(metrics)] = read_score(path, metrics, value)
    found = (score for score in scores.values() if score.role == "global")
    for round_, group in sorted(grouped(found, lambda score: score.round).items()):
        yield round_, summarise(score.value for score in group).mean
