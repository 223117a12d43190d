"""plot cost: scores over the bytes, rounds or local epochs they cost, by method."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, parse_strict
from furlkit.files.container.read import unreadable
from furlkit.files.metrics import as_metrics
from furlkit.reports.figures.lines import draw_lines
from furlkit.reports.ledger import read_ledger
from furlkit.reports.metrics import is_share, read_score, show
from furlkit.reports.runs import File, check_runs
from furlkit.reports.summary import Line, summarise
from furlkit.reports.text import byte_size, counted, plain
from furlkit.stages.plot.picture import Paths, Picture, Series, picture


@dataclass(frozen=True)
class Options:
    """What is on the axes; with `last` only the last round of each run counts."""

    over: str
    last: bool
    value: str
    protocol: str


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
def run(series: Series, title: str, **chosen: Any) -> Picture:
    """Draw scores of global models over what they cost."""
    check_runs(series)
    options = Options(**chosen)
    value, over, percent = options.value, options.over, is_share(options.value)
    lines, ends, data = [], [], []
    for label, folders in series:
        line, costs = _line(plain(label), _groups(label, folders, options), over)
        lines.append(line)
        data.append(line.to_json(**costs))
        end = f"{line.label} {show(line.mean[-1], percent)} after "
        ends.append(end.lstrip() + _cost_text(costs, over))
    return Picture(
        lambda: draw_lines(lines, plain(value), percent, plain(title), over),
        f"{options.protocol} {value} of {'; '.join(ends)}",
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


def _groups(label: str, folders: Paths, options: Options) -> list[list[Point]]:
    """Points of all runs at the same place of the axis, in its order."""
    points = [p for folder in dict.fromkeys(folders) for p in _points(folder, options)]
    # Bytes depend on the rounds, whatever the number of epochs in a round.
    place = "epochs" if options.over == "epochs" else "rounds"
    if place == "epochs":
        _check_agreement(label, points, "epochs", "rounds", "--over rounds")
    if place == "rounds" or not options.last:
        _check_agreement(label, points, "rounds", "epochs", "--over epochs --last")
    groups: dict[int, list[Point]] = {}
    for point in points:
        groups.setdefault(getattr(point, place), []).append(point)
    over = options.over
    return sorted(
        groups.values(), key=lambda g: summarise(getattr(p, over) for p in g).mean
    )


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


def _points(folder: Path, options: Options) -> list[Point]:
    """A point for each round that has a score and a place on the axis."""
    ledger = read_ledger([folder])
    for warning in ledger.warnings:
        console.warn(warning)
    epochs = _epochs(ledger.files)
    points = []
    for round_, values in sorted(_scores(folder, options).items()):
        # The sum is known if each of the rounds up to this one is.
        past = [n for number, n in epochs.items() if 1 <= number <= round_]
        trained = sum(past) if len(past) == round_ else None
        value = summarise(values).mean
        points.append(Point(folder, round_, trained, ledger.until(round_), value))
    if options.over == "bytes":  # The axis is logarithmic and has no zero.
        points = [point for point in points if point.bytes]
    when = "after round 1 or later"
    if options.last:
        last = max(transfer.round for transfer in ledger.transfers)
        points = [point for point in points if point.rounds == last]
        when = f"after its last round {last}"
    if not any(point.rounds for point in points):
        raise InputError(
            f"{folder}: has no {options.protocol} metrics of a global model {when}; "
            f"create them with furlkit evaluate {options.protocol}"
        )
    if options.over == "epochs" and any(point.epochs is None for point in points):
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
    found: dict[int, list[int]] = {}
    for file in files:
        if file.stage == "local-train":
            found.setdefault(file.facts["round"], []).append(file.epochs or 0)
    return {round_: max(every) for round_, every in found.items() if all(every)}


def _scores(folder: Path, options: Options) -> dict[int, list[float]]:
    """Scores of global models by round; the same result twice counts once."""
    found: dict[int, list[float]] = {}
    seen = set()
    for path in sorted(folder.rglob("*.json")):
        for metrics in _metrics(path):
            if metrics.get("protocol") != options.protocol:
                continue
            score = read_score(path, metrics, options.value)
            content = canonical(metrics)
            if score.role == "global" and content not in seen:
                found.setdefault(score.round, []).append(score.value)
                seen.add(content)
    return found


def _metrics(path: Path) -> Iterator[dict[str, Any]]:
    """A metrics file; other JSON, such as an export's config, is skipped."""
    try:
        document = parse_strict(path.read_bytes())
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        console.warn(f"{plain(str(path))}: is not JSON: {error}; left out")
        return
    if isinstance(document, dict) and document.get("kind") == "metrics":
        yield as_metrics(path, document)
