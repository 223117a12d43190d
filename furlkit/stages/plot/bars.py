"""plot bars: means over seeds side by side, as in an ablation."""

from collections.abc import Sequence

from furlkit.errors import UsageError
from furlkit.reports.figures.bars import Axis, draw_bars, extent
from furlkit.reports.metrics import is_share, read_all
from furlkit.reports.summary import Results
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Paths, Picture, Series, picture


@picture
def run(
    series: Series, value: str, reference: str | None, start: float, title: str
) -> Picture:
    """Draw a bar for each series: mean and deviation of its files, each as a dot.

    A label may start with its group, GROUP:LABEL.
    """
    given = [_grouped(label, paths) for label, paths in series]
    found = read_all(given, value, reference)
    bars = [b._replace(group=plain(b.group), label=plain(b.label)) for b in found]
    axis = Axis(plain(value), is_share(value), start)
    _check_start(bars, axis)
    text = f"{axis.value} of {'; '.join(_describe(bar, axis) for bar in bars)}"
    if reference is not None:
        text += f"; against {plain(reference)}, with 95% intervals"
    rows = [bar.to_json() for bar in bars]
    return Picture(
        lambda: draw_bars(bars, axis, plain(title)),
        text,
        {"value": value, "reference": reference, "bars": rows},
    )


def _grouped(label: str, paths: Paths) -> Results:
    group, colon, name = label.partition(":")
    return Results(group if colon else "", name if colon else label, (), (), paths)


def _check_start(bars: Sequence[Results], axis: Axis) -> None:
    least = axis.scale * min(extent(bar)[0] for bar in bars)
    if axis.start and not 0 <= axis.start < least:
        raise UsageError(
            f"--from {axis.start:g}: would hide what is drawn down to {least:.4g}; "
            "start the axis between 0 and there"
        )


def _describe(bar: Results, axis: Axis) -> str:
    def shown(value: float, sign: str = "") -> str:
        return f"{axis.scale * value:{sign}{'.2f' if axis.percent else '.4g'}}"

    mean, std, _ = bar.summary
    spread = "" if std is None else f" +- {shown(std)}"
    unit = " %" if axis.percent else ""
    text = f"{bar.group} {bar.label} {shown(mean)}{spread}{unit}".lstrip()
    if bar.difference is None:
        return text
    low, high = bar.difference["low"], bar.difference["high"]
    text += f" ({shown(bar.difference['mean'], '+')}"
    text += "" if low is None else f", {shown(low, '+')} to {shown(high, '+')}"
    return f"{text}, by {bar.difference['paired_by']})"
