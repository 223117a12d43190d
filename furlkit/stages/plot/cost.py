"""plot cost: scores over the bytes, rounds or local epochs they cost, by method."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, parse_strict
from furlkit.files.container.read import reading
from furlkit.files.metrics import as_metrics
from furlkit.reports.figures.lines import draw_lines
from furlkit.reports.ledger import read_ledger
from furlkit.reports.metrics import is_share, read_score, show
from furlkit.reports.runs import File, check_runs
from furlkit.reports.summary import Line, grouped, summarise
from furlkit.reports.text import byte_size, counted, plain
from furlkit.stages.plot.picture import Picture, Series, picture


class Point(NamedTuple):
    """The score of a run's global model after a round, and what it cost so far.

    `epochs` is None where the files do not say.
    """

    folder: Path
    rounds: int
    epochs: int | None
    bytes: float
    value: float


@picture
def run(
    series: Series, over: str, last: bool, value: str, protocol: str, title: str
) -> Picture:
    """Draw scores of global models over what they cost.

    With `last` only the last round of each run counts.
    """
    check_runs(series)
    percent = is_share(value)
    lines, ends, data = [], [], []
    for label, folders in series:
        runs = [
            _points(run, over, last, value, protocol) for run in dict.fromkeys(folders)
        ]
        line, costs = _line(plain(label), _groups(label, runs, over, last), over)
        lines.append(line)
        data.append(line.to_json(**costs))
        end = f"{line.label} {show(line.mean[-1], percent)} after "
        ends.append(end.lstrip() + _cost_text(costs, over))
    return Picture(
        lambda: draw_lines(lines, plain(value), percent, plain(title), over),
        f"{protocol} {value} of {'; '.join(ends)}",
        {"over": over, "lines": data},
    )


def _line(
    label: str, groups: Sequence[Sequence[Point]], over: str
) -> tuple[Line, dict[str, list]]:
    """Means over the points of each group, and what they cost."""
    named = [[point.epochs for point in group] for group in groups]
    costs: dict[str, list] = {
        "rounds": [group[0].rounds for group in groups],
        "epochs": [next(filter(None, epochs), epochs[0]) for epochs in named],
        "bytes": [summarise(point.bytes for point in group).mean for group in groups],
    }
    values = [summarise(point.value for point in group) for group in groups]
    return Line.of(label, costs[over], costs["rounds"], values), costs


def _cost_text(costs: dict[str, list], over: str) -> str:
    text, epochs = f"round {costs['rounds'][-1]}", costs["epochs"][-1]
    if over == "bytes":
        text += f" and {byte_size(round(costs['bytes'][-1]))}"
    if over == "epochs":
        text += f" and {counted(epochs, 'local epoch')}"
    return text


def _groups(
    label: str, runs: Sequence[Sequence[Point]], over: str, last: bool
) -> list[list[Point]]:
    """Points of all runs at the same place of the axis, in its order."""
    points = [point for run in runs for point in run]
    # Bytes depend on the rounds, whatever the number of epochs in a round.
    place = "epochs" if over == "epochs" else "rounds"
    if place == "epochs":
        _check_agreement(label, points, "epochs", "rounds", "--over rounds")
    if place == "rounds" or not last:
        _check_agreement(label, points, "rounds", "epochs", "--over epochs --last")
    groups = grouped(points, attrgetter(place)).values()
    return sorted(groups, key=lambda g: summarise(map(attrgetter(over), g)).mean)


def _check_agreement(
    label: str, points: Sequence[Point], place: str, other: str, cure: str
) -> None:
    """Refuse to average runs of one place that differ in the other number."""
    seen: dict[int, Point] = {}
    for point in sorted(points, key=lambda point: point.rounds):
        if getattr(point, other) is None:
            continue
        first = seen.setdefault(getattr(point, place), point)
        if getattr(first, other) != getattr(point, other):
            one, two = (
                f"{p.folder} (round {p.rounds}, {p.epochs} local epochs)"
                for p in (first, point)
            )
            raise UsageError(
                f"--series {label}: {one} and {two} have the same number of {place}; "
                f"give each its own --series, or draw {cure}"
            )


def _points(
    folder: Path, over: str, last: bool, value: str, protocol: str
) -> list[Point]:
    """A point for each round that has a score and a place on the axis."""
    ledger = read_ledger([folder])
    for warning in ledger.warnings:
        console.warn(warning)
    epochs = _epochs(ledger.files)
    points = []
    for round_, values in sorted(_scores(folder, value, protocol).items()):
        # The sum is known if each of the rounds up to this one is.
        past = [n for number, n in epochs.items() if 1 <= number <= round_]
        trained = sum(past) if len(past) == round_ else None
        mean, cost = summarise(values).mean, ledger.until(round_)
        points.append(Point(folder, round_, trained, cost, mean))
    if over == "bytes":  # The axis is logarithmic and has no zero.
        points = [point for point in points if point.bytes]
    when = "after round 1 or later"
    if last:
        end = max(transfer.round for transfer in ledger.transfers)
        points = [point for point in points if point.rounds == end]
        when = f"after its last round {end}"
    if not any(point.rounds for point in points):
        raise InputError(
            f"{folder}: has no {protocol} metrics of a global model {when}; "
            f"create them with furlkit evaluate {protocol}"
        )
    if over == "epochs" and any(point.epochs is None for point in points):
        unknown = next(number for number in count(1) if number not in epochs)
        raise InputError(
            f"{folder}: no file of round {unknown} says how many epochs its clients "
            "trained for, which --over epochs adds up; keep what local-train writes in "
            "every round, or draw --over rounds"
        )
    return points


def _epochs(files: Iterable[File]) -> dict[int, int]:
    """The epochs of each round where all files name them.

    Where clients trained for different numbers the largest counts: a round takes as
    long as its slowest client.
    """
    trained = (file for file in files if file.stage == "local-train")
    rounds = grouped(trained, lambda file: file.facts["round"])
    every = {round_: [f.epochs or 0 for f in found] for round_, found in rounds.items()}
    return {round_: max(epochs) for round_, epochs in every.items() if all(epochs)}


def _scores(folder: Path, value: str, protocol: str) -> dict[int, list[float]]:
    """Scores of global models by round; the same result twice counts once."""
    found: dict[int, dict[str, float]] = {}
    for path in sorted(folder.rglob("*.json")):
        for metrics in _metrics(path):
            if metrics.get("protocol") == protocol:
                score = read_score(path, metrics, value)
                if score.role == "global":
                    by_content = found.setdefault(score.round, {})
                    by_content[canonical(metrics)] = score.value
    return {round_: list(values.values()) for round_, values in found.items()}


def _metrics(path: Path) -> Iterator[dict[str, Any]]:
    """A metrics file; other JSON, such as an export's config, is skipped."""
    try:
        with reading(path):
            document = parse_strict(path.read_bytes())
    except (ValueError, RecursionError) as error:
        console.warn(f"{plain(str(path))}: is not JSON: {error}; left out")
        return
    if isinstance(document, dict) and document.get("kind") == "metrics":
        yield as_metrics(path, document)
