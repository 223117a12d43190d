"""plot bars: means over seeds side by side, as in an ablation."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.errors import UsageError
from furlkit.inputs.paths import check_output as check_inputs
from furlkit.reports.figures.bars import Axis, Bar, draw_bars
from furlkit.reports.figures.style import check_output, finish
from furlkit.reports.metrics import is_share
from furlkit.reports.series import Comparison, Results, Series, read_all
from furlkit.reports.text import plain


@dataclass(frozen=True)
class Options:
    """`value` names what is drawn; `reference` is the label to compare with.

    `start` is where the axis starts, in the unit that is drawn.
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
    """Draw a bar for each series: mean and deviation of its files, each as a dot."""
    check_output(options.output)
    for series in options.series:
        check_inputs(options.output, series.paths)
    found = read_all(options.series, options.value, options.reference)
    bars = [
        Bar(plain(r.series.group), plain(r.series.label), r.values) for r, _ in found
    ]
    axis = Axis(plain(options.value), is_share(options.value), options.start)
    _check_start(bars, axis)
    described = [
        _describe(bar, c, axis) for bar, (_, c) in zip(bars, found, strict=True)
    ]
    text = f"{axis.value} of {'; '.join(described)}"
    if options.reference is not None:
        text += f"; against {plain(options.reference)}, with 95% intervals"
    rows = [_row(bar, *each) for bar, each in zip(bars, found, strict=True)]
    return finish(
        lambda: draw_bars(bars, axis, plain(options.title)), options.output,
        options.dry_run, text,
        {"value": options.value, "reference": options.reference, "bars": rows},
    )  # fmt: skip


def _check_start(bars: Sequence[Bar], axis: Axis) -> None:
    least = axis.scale * min(bar.extent[0] for bar in bars)
    if axis.start and not 0 <= axis.start < least:
        raise UsageError(
            f"--from {axis.start:g}: would hide what is drawn down to {least:.4g}; "
            "start the axis between 0 and there"
        )


def _describe(bar: Bar, comparison: Comparison | None, axis: Axis) -> str:
    def shown(value: float, sign: str = "") -> str:
        return f"{axis.scale * value:{sign}{'.2f' if axis.percent else '.4g'}}"

    mean, std, _ = bar.summary
    spread = "" if std is None else f" +- {shown(std)}"
    unit = " %" if axis.percent else ""
    text = f"{bar.group} {bar.label} {shown(mean)}{spread}{unit}".lstrip()
    if comparison is None:
        return text
    found = comparison.difference
    text += f" ({shown(found.mean, '+')}"
    if found.low is not None and found.high is not None:
        text += f", {shown(found.low, '+')} to {shown(found.high, '+')}"
    return f"{text}, by {comparison.by})"


def _row(bar: Bar, results: Results, comparison: Comparison | None) -> dict[str, Any]:
    row = {
        "group": bar.group,
        "label": bar.label,
        "values": list(bar.values),
        **bar.summary._asdict(),
        "files": [str(path) for path in results.series.paths],
    }
    return {**row, "difference": comparison.to_json()} if comparison else row
