"""plot curve and plot partition: scores over rounds; who has which images."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.metrics import read_metrics
from furlkit.files.partition import Partition, read_partition
from furlkit.reports.figures.lines import draw_lines
from furlkit.reports.figures.partition import draw_bubbles, draw_heat, draw_sizes
from furlkit.reports.figures.style import check_output, finish
from furlkit.reports.metrics import Score, is_share, read_score, show
from furlkit.reports.summary import Line, summarise
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
    """`style` is heat or bubbles; without a `title` one is made from the partition."""

    partition: Path
    output: Path
    style: str = "heat"
    title: str | None = None
    dry_run: bool = False


def run_curve(options: CurveOptions) -> tuple[str, dict[str, Any]]:
    """Draw a value over rounds, one line for each series and protocol."""
    check_output(options.output)
    lines = _lines(options)
    percent = is_share(options.value)
    value, title = plain(options.value), plain(options.title)
    ends = "; ".join(
        f"{line.label} {show(line.mean[-1], percent)} after round {line.rounds[-1]}"
        for line in lines
    )
    return finish(
        lambda: draw_lines(lines, value, percent, title), options.output,
        options.dry_run, f"{options.value} of {ends}",
        {"lines": [line.to_json() for line in lines]},
    )  # fmt: skip


def _lines(options: CurveOptions) -> list[Line]:
    """A line for each label and protocol, labels in the order they were given."""
    # The same result given twice in a series counts once.
    found: dict[tuple[str, str], dict[str, Score]] = {}
    for label, paths in options.series:
        for path in paths:
            metrics = read_metrics(path)
            score = read_score(path, metrics, options.value)
            scores = found.setdefault((plain(label), score.protocol), {})
            scores.setdefault(canonical(metrics), score)
    if not found:
        raise UsageError("plot curve: give metrics files, which evaluate writes")
    labels = [plain(label) for label, _ in options.series]
    order = sorted(found, key=lambda key: (labels.index(key[0]), key[1]))
    single = len({protocol for _, protocol in found}) == 1
    return [
        _line(
            label if label and single else f"{label}, {protocol}".removeprefix(", "),
            list(found[label, protocol].values()),
        )
        for label, protocol in order
    ]


def _line(label: str, scores: list[Score]) -> Line:
    """Means over the files of each round; the models must have one role."""
    rounds: dict[int, list[float]] = {}
    first = scores[0]
    for score in scores:
        if score.role != first.role:
            raise UsageError(
                f"{score.path}: scores {with_article(score.role)} model, {first.path} "
                f"{with_article(first.role)} model; give them to plot as two --series"
            )
        rounds.setdefault(score.round, []).append(score.value)
    order = sorted(rounds)
    return Line.of(label, order, order, [summarise(rounds[r]) for r in order])


def run_partition(options: PartitionOptions) -> tuple[str, dict[str, Any]]:
    """Draw how many images of each class every client has."""
    check_output(options.output)
    if options.style not in STYLES:
        raise UsageError(f"--style {options.style}: use one of {', '.join(STYLES)}")
    partition = read_partition(options.partition)
    least = partition.histogram.min(initial=0)
    if not partition.facts.clients or least < 0:
        raise InputError(
            f"{partition.path}: has {partition.facts.clients} clients and a least count "
            f"of {least}; re-create the partition"
        )
    clients, classes = partition.histogram.shape
    style = options.style if classes else "sizes"
    text = f"{clients:,} clients, {classes:,} classes as {style}"
    if not classes:
        text = f"sizes of {clients:,} clients; it has no labels"
    return finish(
        lambda: _draw(partition, style, options.title), options.output,
        options.dry_run, text, {"style": style, "clients": clients, "classes": classes},
    )  # fmt: skip


def _draw(partition: Partition, style: str, title: str | None) -> "Figure":
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
