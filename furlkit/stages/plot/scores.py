"""plot: pictures of scores through rounds, and of partitions."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.metrics import read_metrics
from furlkit.files.partition import Partition, read_partition
from furlkit.reports.figures.partition import draw_bubbles, draw_heat, draw_sizes
from furlkit.reports.figures.style import Line, check_output, draw_curve, save
from furlkit.reports.metrics import Score, is_share, read_score
from furlkit.reports.text import plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STYLES = ("heat", "bubbles")


@dataclass(frozen=True)
class CurveOptions:
    """`series` are labels with their metrics files; `value` names what is drawn.

    A value inside another is named with a dot, like `drift.rank`.
    """

    series: tuple[tuple[str, tuple[Path, ...]], ...]
    output: Path
    value: str = "accuracy"
    title: str = ""
    dry_run: bool = False


@dataclass(frozen=True)
class PartitionOptions:
    """`style` is heat or bubbles; None for `title` says what the partition is."""

    partition: Path
    output: Path
    style: str = "heat"
    title: str | None = None
    dry_run: bool = False


def run_curve(options: CurveOptions) -> tuple[str, dict[str, Any]]:
    """Draw a value through rounds, one line for each series and protocol."""
    check_output(options.output)
    scores = _scores(options)
    lines = _lines(scores)
    percent = is_share(options.value)
    if not options.dry_run:
        value, title = plain(options.value), plain(options.title)
        save(draw_curve(lines, value, percent, title), options.output)
    ends = "; ".join(_end(line, percent) for line in lines)
    line = f"{_output(options)}: {options.value} of {ends}"
    numbers = [{k: _listed(v) for k, v in asdict(line).items()} for line in lines]
    return line, {"output": str(options.output), "lines": numbers}


def run_partition(options: PartitionOptions) -> tuple[str, dict[str, Any]]:
    """Draw who holds how many images of which class."""
    check_output(options.output)
    if options.style not in STYLES:
        raise UsageError(f"--style {options.style}: use one of {', '.join(STYLES)}")
    partition = read_partition(options.partition)
    _check_histogram(partition)
    clients, classes = partition.histogram.shape
    style = options.style if classes else "sizes"
    if not options.dry_run:
        save(_drawn(partition, style, options.title), options.output)
    line = f"{_output(options)}: {clients:,} clients, {classes:,} classes as {style}"
    if not classes:
        line = f"{_output(options)}: sizes of {clients:,} clients; it has no labels"
    data = {"style": style, "clients": clients, "classes": classes}
    return line, {"output": str(options.output), **data}


def _output(options: CurveOptions | PartitionOptions) -> str:
    return f"{'would draw ' if options.dry_run else ''}{options.output}"


def _scores(options: CurveOptions) -> list[Score]:
    """Read every file once; the same result given twice in a series counts once."""
    found: dict[tuple[str, str], Score] = {}
    for label, paths in options.series:
        for path in paths:
            metrics = read_metrics(path)
            score = read_score(path, plain(label), metrics, options.value)
            found.setdefault((label, canonical(metrics)), score)
    if not found:
        raise UsageError("plot curve: give it metrics files, which evaluate writes")
    return list(found.values())


def _lines(scores: list[Score]) -> list[Line]:
    """A line for each label and protocol, labels in the order they were given."""
    labels = list(dict.fromkeys(score.label for score in scores))
    protocols = sorted({score.protocol for score in scores})
    lines = []
    for label in labels:
        for protocol in protocols:
            mine = [s for s in scores if (s.label, s.protocol) == (label, protocol)]
            words = [label] if label and len(protocols) == 1 else [label, protocol]
            if mine:
                _check_roles(mine)
                lines.append(_line(", ".join(filter(None, words)), mine))
    return lines


def _check_roles(scores: list[Score]) -> None:
    first = scores[0]
    for score in scores:
        if score.role != first.role:
            raise UsageError(
                f"{score.path}: scores {with_article(score.role)} model, {first.path} "
                f"{with_article(first.role)} model; give them to plot as two --series"
            )


def _line(label: str, scores: list[Score]) -> Line:
    """Mean and standard deviation (that of a sample) of the scores of each round."""
    rounds: dict[int, list[float]] = {}
    for score in scores:
        rounds.setdefault(score.round, []).append(score.value)
    # Sorted values have one mean, to the last bit, whatever the order of the files.
    columns = [np.sort(rounds[round_]) for round_ in sorted(rounds)]
    return Line(
        label,
        rounds=np.array(sorted(rounds)),
        mean=np.array([values.mean() for values in columns]),
        std=np.array(
            [values.std(ddof=1) if len(values) > 1 else 0 for values in columns]
        ),
        runs=np.array([len(values) for values in columns]),
    )


def _end(line: Line, percent: bool) -> str:
    last = line.mean[-1]
    value = f"{100 * last:.2f} %" if percent else f"{last:.4g}"
    return f"{line.label} {value} after round {line.rounds[-1]}"


def _listed(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value


def _check_histogram(partition: Partition) -> None:
    if not partition.facts.clients or partition.histogram.min(initial=0) < 0:
        raise InputError(
            f"{partition.path}: has {partition.facts.clients} clients and a least count "
            f"of {partition.histogram.min(initial=0)}; make the partition anew"
        )


def _drawn(partition: Partition, style: str, title: str | None) -> "Figure":
    histogram, sizes = partition.histogram, partition.sizes
    names = partition.facts.class_names
    if not isinstance(names, list) or len(names) != histogram.shape[1]:
        names = [str(number) for number in range(histogram.shape[1])]
    if title is None:
        public = f", {len(partition.public):,} public" if len(partition.public) else ""
        title = (
            f"{partition.facts.scheme}: {len(sizes):,} clients, "
            f"{sizes.sum():,} images{public}"
        )
        title += "" if style != "sizes" else ", without labels"
    if style == "heat":
        return draw_heat(histogram, sizes, names, plain(title))
    if style == "bubbles":
        return draw_bubbles(histogram, names, plain(title))
    return draw_sizes(sizes, plain(title))
