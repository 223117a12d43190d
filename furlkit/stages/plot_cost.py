"""plot cost: what a score cost in bytes, round after round, a line a method."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import console
from furlkit.cost_figures import Cost, draw_cost
from furlkit.errors import InputError, UsageError
from furlkit.figures import check_output, save
from furlkit.files.container import unreadable
from furlkit.files.header import canonical, parse_strict
from furlkit.files.metrics import read_metrics
from furlkit.ledger import Ledger, read_ledger
from furlkit.score_files import Score, is_share, read_score
from furlkit.tables import byte_size, plain


@dataclass(frozen=True)
class Options:
    """`series` are labels with the folders of runs, several where there are seeds."""

    series: tuple[tuple[str, tuple[Path, ...]], ...]
    output: Path
    value: str = "accuracy"
    protocol: str = "linear"
    title: str = ""
    dry_run: bool = False


class Point(NamedTuple):
    """The score of a run's global model after a round, and the bytes until then."""

    round: int
    bytes: int
    value: float


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw scores of global models over the bytes that made them."""
    check_output(options.output)
    _check_series(options.series)
    costs = [_cost(label, folders, options) for label, folders in options.series]
    percent = is_share(options.value)
    if not options.dry_run:
        value, title = plain(options.value), plain(options.title)
        save(draw_cost(costs, value, percent, title), options.output)
    ends = "; ".join(_end(cost, percent) for cost in costs)
    would = "would draw " if options.dry_run else ""
    line = f"{would}{options.output}: {options.protocol} {options.value} of {ends}"
    data = [{k: _listed(v) for k, v in asdict(cost).items()} for cost in costs]
    return line, {"output": str(options.output), "lines": data}


def _check_series(series: Sequence[tuple[str, tuple[Path, ...]]]) -> None:
    labels = [label for label, _ in series]
    for label, folders in series:
        if labels.count(label) > 1:
            raise UsageError(f"--series {label}: is there twice; give it another label")
        for folder in folders:
            if not folder.is_dir():
                raise InputError(
                    f"{folder}: is no folder; --series {label} wants the folder of a run"
                )


def _cost(label: str, folders: tuple[Path, ...], options: Options) -> Cost:
    """Means over runs of what was reached and what it took, by round."""
    rounds: dict[int, list[Point]] = {}
    for folder in dict.fromkeys(folders):
        for point in _points(folder, options):
            rounds.setdefault(point.round, []).append(point)
    groups = [rounds[round_] for round_ in sorted(rounds)]
    # Sorted values have one mean, to the last bit, whatever the order of the runs.
    values = [np.sort([point.value for point in group]) for group in groups]
    return Cost(
        plain(label),
        rounds=np.array(sorted(rounds)),
        bytes=np.array([np.mean([p.bytes for p in group]) for group in groups]),
        mean=np.array([each.mean() for each in values]),
        std=np.array([each.std(ddof=1) if len(each) > 1 else 0 for each in values]),
        runs=np.array([len(each) for each in values]),
    )


def _points(folder: Path, options: Options) -> list[Point]:
    """A point for each round that has a score; one that cost nothing has no place."""
    ledger = read_ledger([folder])
    for warning in ledger.warnings:
        console.warn(warning)
    points = _means(ledger, _scores(folder, options))
    if not points:
        raise InputError(
            f"{folder}: has no {options.protocol} metrics of a global model after round "
            f"1 or later; make them with furlkit evaluate {options.protocol}"
        )
    return points


def _means(ledger: Ledger, scores: list[Score]) -> list[Point]:
    rounds: dict[int, list[float]] = {}
    for score in scores:
        rounds.setdefault(score.round, []).append(score.value)
    points = [
        Point(round_, ledger.until(round_), float(np.sort(values).mean()))
        for round_, values in sorted(rounds.items())
    ]
    return [point for point in points if point.bytes]


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


def _end(cost: Cost, percent: bool) -> str:
    value = f"{100 * cost.mean[-1]:.2f} %" if percent else f"{cost.mean[-1]:.4g}"
    after = f"round {cost.rounds[-1]} and {byte_size(round(cost.bytes[-1]))}"
    return f"{cost.label} {value} after {after}".lstrip()


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
