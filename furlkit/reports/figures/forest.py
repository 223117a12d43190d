"""Forest plots: a row for each difference and interval."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from furlkit.reports.differences import Difference, percent
from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import COLOURS, GREY
from furlkit.reports.metrics import Value
from furlkit.reports.results import Results
from furlkit.reports.text import shorten

LABEL_WIDTH = 36
BETWEEN = 0.3  # Inches from row to row.
NARROW = 1.2  # Inches of the axis.
TICK = 0.35  # Inches from tick to tick.
TALLEST = 50
NAMES = {"t": "t", "wilcoxon": "Wilcoxon"}


def draw_forest(
    rows: Sequence[Results],
    value: Value,
    reference: str,
    numbers: bool = True,
    frame: Frame = UNFRAMED,
) -> Figure:
    """Difference of each row from the reference, with interval and band of the probes.

    Rows follow the given order from the top.
    """
    found = [(row.label, row.difference) for row in rows if row.difference]
    longest = min(LABEL_WIDTH, max(len(label) for label, _ in found))
    width = 4 + 0.07 * longest + (1.6 if numbers else 0)
    height = min(1.2 + BETWEEN * len(found), TALLEST)
    with style.canvas(width, height, frame) as figure:
        width = figure.get_figwidth()
        axes = figure.add_subplot()
        axes.use_sticky_edges = False  # Otherwise a band would end at the edge.
        for place, (_, difference) in enumerate(found):
            _draw_row(axes, place, difference, value)
            if numbers:  # Right of the axes: x in parts of the axes, y in rows.
                text = difference.text(lambda number: value.show(number, "+.2f"))
                at: dict[str, Any] = {"transform": axes.get_yaxis_transform()}
                axes.text(1.02, place, text, **at, va="center", fontsize=8)
        axes.axvline(0, color="black", linewidth=0.8, zorder=1)
        # Names take at most half of a picture with a given size.
        short = [shorten(label, min(LABEL_WIDTH, int(6 * width))) for label, _ in found]
        axes.set_yticks(range(len(found)), short)
        axes.set_ylim(len(found) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.spines["left"].set_visible(False)
        axes.grid(axis="x")
        said = _explained([each for _, each in found], value, reference)
        figure.supxlabel("\n".join(fill(each, int(13 * width)) for each in said))
        _widen(figure, axes)
    return figure


def _widen(figure: Figure, axes: Axes) -> None:
    """Break names and numbers into two lines if little room is left for the bars."""
    style.lay_out(figure)
    names, area = axes.get_yticklabels(), axes.get_window_extent()
    width, height = area.width / figure.dpi, area.height / figure.dpi
    if width < NARROW and height / len(names) >= BETWEEN:
        for text in axes.texts:
            text.set_text(text.get_text().replace(" (", "\n(", 1))
        lines = (name.get_text() for name in names)
        broken = [fill(line, max(10, len(line) // 2 + 3)) for line in lines]
        axes.set_yticks(axes.get_yticks(), broken)
        style.lay_out(figure)
    most = int(axes.get_window_extent().width / figure.dpi / TICK)
    if most < 4:
        axes.xaxis.set_major_locator(MaxNLocator(max(1, most), min_n_ticks=1))


def _draw_row(axes: Axes, place: int, difference: Difference, value: Value) -> None:
    scale, (middle, low, high, _) = value.scale, difference.effect
    if alone := difference.probes_alone:
        band: dict[str, Any] = {"color": style.tint(GREY, 0.25), "linewidth": 0}
        axes.barh(place, 2 * scale * alone, 1, -scale * alone, **band, zorder=0.5)
    if low is not None and high is not None:
        ends = [[scale * (middle - low)], [scale * (high - middle)]]
        bar: dict[str, Any] = {"fmt": "none", "capsize": 3, "ecolor": COLOURS[0]}
        axes.errorbar(scale * middle, place, xerr=ends, **bar, zorder=2)
    inside = COLOURS[0] if difference.decisive else "white"
    dot: dict[str, Any] = {"color": inside, "edgecolor": COLOURS[0], "zorder": 3}
    axes.scatter(scale * middle, place, s=26, linewidth=1.2, **dot)


def _explained(found: Sequence[Difference], value: Value, reference: str) -> list[str]:
    """Explain the axis, and bars, band and dots if they appear."""
    said = [f"{value.label} minus that of {shorten(reference, LABEL_WIDTH)}"]
    levels = [each.effect.level for each in found if each.effect.level is not None]
    if levels:
        ends = dict.fromkeys((percent(min(levels)), percent(max(levels))))
        name = f"{' to '.join(ends)} {NAMES[found[0].interval]} interval"
        said.append(f"bar: {name}; filled dot: differs from 0 beyond the noise")
    if any(each.probes_alone for each in found):
        said.append("grey: what the probes alone would give")
    return said
