"""Bar charts: means over seeds side by side."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures import style
from furlkit.reports.figures.style import COLOURS
from furlkit.reports.summary import Results
from furlkit.reports.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HATCHES = ("", "///", "...", "xxx")
LABEL_WIDTH = 36
BETWEEN_GROUPS = 0.7  # In widths of a bar.


def extent(bar: Results) -> tuple[float, float]:
    """The lowest and highest point drawn: dots and ends of the error bar."""
    mean, std = bar.summary.mean, bar.summary.std or 0
    points = (*bar.values, mean - std, mean + std)
    return min(points), max(points)


@dataclass(frozen=True)
class Axis:
    """The vertical axis; one that starts above 0 says so."""

    value: str
    percent: bool = False
    start: float = 0

    @property
    def scale(self) -> int:
        """The factor between a number in a file and on the axis."""
        return 100 if self.percent else 1

    @property
    def label(self) -> str:
        """The value, its unit, and where the axis starts if not at 0."""
        unit = " (%)" if self.percent else ""
        start = f"\naxis starts at {self.start:g}, not at 0" if self.start else ""
        return f"{shorten(self.value, LABEL_WIDTH)}{unit}{start}"


def draw_bars(bars: Sequence[Results], axis: Axis, title: str = "") -> Any:
    """A bar for each mean with one standard deviation up and down, a dot per seed.

    A label has the same colour in all groups.
    """
    labels = list(dict.fromkeys(bar.label for bar in bars))
    groups = list(dict.fromkeys(bar.group for bar in bars))
    places = _places(bars, groups)
    width = float(np.clip(1.3 + 0.55 * (places.max() + 1), 4, 12))
    with style.canvas(width, 3.8, title) as figure:
        axes = figure.add_subplot()
        narrow = (width - 1) / (places.max() + 1) < 0.36  # Inches for a bar's number.
        handles: dict[str, Any] = {}
        for place, bar in zip(places, bars, strict=True):
            drawn = _draw_bar(axes, place, bar, labels.index(bar.label), axis)
            handles.setdefault(bar.label, drawn)
            axes.annotate(
                f"{axis.scale * bar.summary.mean:{'.1f' if axis.percent else '.4g'}}",
                (place, axis.scale * max(0, extent(bar)[1])), (0, 3), fontsize=8,
                textcoords="offset points", ha="center", rotation=90 if narrow else 0
            )  # fmt: skip
        _limit_heights(axes, bars, axis)
        style.slots(axes, places.max())
        axes.set_ylabel(axis.label)
        axes.tick_params(axis="x", length=0)
        names = groups if len(groups) > 1 else [bar.label for bar in bars]
        of_group = [[bar.group == group for bar in bars] for group in groups]
        middles = [places[mine].mean() for mine in of_group]
        _name_slots(axes, middles if len(groups) > 1 else places, names, width)
        if len(groups) > 1:
            short = [shorten(label, LABEL_WIDTH) for label in handles]
            style.legend(figure, list(handles.values()), short, lower=True)
        axes.set_xlabel(_note(bars, groups))
    return figure


def _places(bars: Sequence[Results], groups: Sequence[str]) -> np.ndarray:
    """Where each bar stands: groups one after the other, with a gap between them."""
    group = np.array([groups.index(bar.group) for bar in bars])
    slots = np.argsort(np.argsort(group, kind="stable"))
    return slots + BETWEEN_GROUPS * group


def _draw_bar(axes: "Axes", place: float, bar: Results, number: int, axis: Axis) -> Any:
    again, colour = divmod(number, len(COLOURS))
    mean, std, n = bar.summary
    drawn = axes.bar(
        place, axis.scale * mean, 0.85, color=style.tint(COLOURS[colour], 0.75),
        hatch=HATCHES[again % len(HATCHES)], edgecolor="white", linewidth=0,
        yerr=None if std is None else axis.scale * std, capsize=3
    )  # fmt: skip
    if n > 1:
        beside = place + 0.25 * np.linspace(-1, 1, n)
        dots: dict[str, Any] = {"color": "white", "edgecolor": "black", "zorder": 3}
        values = axis.scale * np.sort(bar.values)
        axes.scatter(beside, values, s=9, linewidth=0.6, **dots)
    return drawn


def _limit_heights(axes: "Axes", bars: Sequence[Results], axis: Axis) -> None:
    """From 0, or the start of the axis, with room for the numbers above the bars."""
    lows, highs = zip(*(extent(bar) for bar in bars), strict=True)
    top = max(0, axis.scale * max(highs))
    bottom = min(axis.start, axis.scale * min(lows))
    room = 0.12 * ((top - bottom) or 1)
    axes.set_ylim(bottom - (room / 2 if bottom < 0 else 0), top + room)
    if bottom < 0:
        axes.axhline(0, color="black", linewidth=0.8)
    style.grid_lines(axes)


def _name_slots(axes: "Axes", places: Any, names: Sequence[str], width: float) -> None:
    """Names below the bars, slanted where they are too long to stand side by side."""
    short = [shorten(name, LABEL_WIDTH) for name in names]
    axes.set_xticks(places, short)
    low, high = axes.get_xlim()
    apart = min(np.diff(np.sort(places)), default=4) * (width - 1) / (high - low)
    if 0.08 * max(map(len, short)) > apart:
        for text in axes.get_xticklabels():
            text.set(rotation=30, ha="right", rotation_mode="anchor")


def _note(bars: Sequence[Results], groups: Sequence[str]) -> str:
    lines = [shorten(groups[0], LABEL_WIDTH)] if len(groups) == 1 and groups[0] else []
    counts = [len(bar.values) for bar in bars]
    if max(counts) > 1:
        lines.append(f"mean of {style.span(counts)} results (dots)")
        lines.append("error bar: one standard deviation")
    return "\n".join(lines)
