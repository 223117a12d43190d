"""plot bars: means over seeds side by side, as an ablation shows them."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from furlkit.errors import UsageError
from furlkit.inputs.paths import check_output as check_inputs
from furlkit.reports.figures.scores import Axis, Bar, draw_bars, lowest
from furlkit.reports.figures.style import check_output, save
from furlkit.reports.metrics import is_share
from furlkit.reports.series import (
    Comparison,
    Results,
    Series,
    check_series,
    compared,
    read_results,
)
from furlkit.reports.text import plain


@dataclass(frozen=True)
class Options:
    """`value` names what is drawn; `reference` is the label others are held against.

    `start` is where the axis is cut, in the unit that is drawn.
    """

    series: tuple[Series, ...]
    output: Path
    value: str = "accuracy"
    reference: str | None = None
    start: float = 0
    title: str = ""
    dry_run: bool = False


def run_values(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw with flat options; a label may start with its group, GROUP:LABEL."""
    series = []
    for label, paths in values["series"]:
        group, colon, name = label.partition(":")
        series.append(Series(group if colon else "", name if colon else label, paths))
    return run(Options(**{**values, "series": tuple(series)}))


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Draw a bar a series: the mean of its files, their deviation, each as a dot."""
    check_output(options.output)
    check_series(options.series, options.reference)
    for series in options.series:
        check_inputs(options.output, series.paths)
    results = [read_results(series, options.value) for series in options.series]
    bars = [_bar(result) for result in results]
    axis = Axis(plain(options.value), is_share(options.value), options.start)
    _check_start(bars, axis)
    against = [compared(result, results, options.reference) for result in results]
    if not options.dry_run:
        save(draw_bars(bars, axis, plain(options.title)), options.output)
    words = [_words(bar, held, axis) for bar, held in zip(bars, against, strict=True)]
    line = f"{options.output}: {axis.value} of {'; '.join(words)}"
    if options.reference is not None:
        line += f"; against {plain(options.reference)}, with 95% intervals"
    line = f"would draw {line}" if options.dry_run else line
    rows = [_row(*each) for each in zip(results, bars, against, strict=True)]
    data = {"value": options.value, "reference": options.reference, "bars": rows}
    return line, {"output": str(options.output), **data}


def _bar(results: Results) -> Bar:
    group, label = plain(results.series.group), plain(results.series.label)
    return Bar(group, label, results.values, results.mean, results.std)


def _check_start(bars: Sequence[Bar], axis: Axis) -> None:
    least = axis.scale * lowest(bars)
    if axis.start and not 0 <= axis.start < least:
        raise UsageError(
            f"--from {axis.start:g}: would hide what is drawn down to {least:.4g}; "
            "start the axis between 0 and there"
        )


def _words(bar: Bar, held: Comparison | None, axis: Axis) -> str:
    def shown(value: float, sign: str = "") -> str:
        return f"{axis.scale * value:{sign}{'.2f' if axis.percent else '.4g'}}"

    name = f"{bar.group} {bar.label}".strip()
    spread = "" if bar.std is None else f" +- {shown(bar.std)}"
    words = f"{name} {shown(bar.mean)}{spread}{' %' if axis.percent else ''}"
    if held is None:
        return words
    words += f" ({shown(held.difference.mean, '+')}"
    low, high = held.difference.low, held.difference.high
    if low is not None and high is not None:
        words += f", {shown(low, '+')} to {shown(high, '+')}"
    return f"{words}, by {held.by})"


def _row(results: Results, bar: Bar, held: Comparison | None) -> dict[str, Any]:
    row = {**asdict(bar), "values": list(bar.values), "n": len(bar.values)}
    row["files"] = [str(path) for path in results.series.paths]
    if held is not None:
        row["difference"] = {**asdict(held.difference), "paired_by": held.by}
    return row
