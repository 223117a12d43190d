"""Pictures of scores: means of seeds as bars."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures.style import COLOURS, GREY, head, house_style, new_figure
from furlkit.reports.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HATCHES = ("", "///", "...", "xxx")
LABEL_WIDTH = 36


@dataclass(frozen=True)
class Bar:
    """The values of one method's seeds; bars of one group stand together.

    `std` is that of a sample, None for a single value.
    """

    group: str
    label: str
    values: tuple[float, ...]
    mean: float
    std: float | None


@dataclass(frozen=True)
class Axis:
    """What the height of a bar means; an axis that starts above 0 is cut."""

    value: str
    percent: bool = False
    start: float = 0

    @property
    def scale(self) -> int:
        """What a number of a file is multiplied by."""
        return 100 if self.percent else 1

    @property
    def words(self) -> str:
        """The axis says so itself where it does not start at 0."""
        unit = " (%)" if self.percent else ""
        cut = f"\naxis starts at {self.start:g}, not at 0" if self.start else ""
        return f"{shorten(self.value, LABEL_WIDTH)}{unit}{cut}"

    def number(self, value: float) -> str:
        """A value as it stands above its bar."""
        return f"{value:.1f}" if self.percent else f"{value:.4g}"


def draw_bars(bars: Sequence[Bar], axis: Axis, title: str = "") -> "Figure":
    """A bar for each mean with one standard deviation up and down, a dot a seed.

    A label has the same colour in all groups. Bars start at 0; `axis.start` cuts.
    """
    labels = list(dict.fromkeys(bar.label for bar in bars))
    groups = list(dict.fromkeys(bar.group for bar in bars))
    places, centres = _places(bars, groups)
    width = np.clip(1.3 + 0.55 * (places[-1] + 1), 4, 12)
    with house_style():
        figure = new_figure(width, 3.8)
        head(figure, title)
        axes = figure.add_subplot()
        each = 72 * (width - 1) / (places[-1] + 1)  # Points a bar has for its number.
        handles: dict[str, Any] = {}
        for place, bar in zip(places, bars, strict=True):
            handle = _draw_bar(axes, place, bar, labels.index(bar.label), axis)
            handles.setdefault(bar.label, handle)
            _write_value(axes, place, bar, axis, upright=each < 26)
        _bound(axes, bars, axis)
        span(axes, places[-1])
        axes.set_ylabel(axis.words)
        axes.tick_params(axis="x", length=0)
        if len(groups) == 1:
            _name_bars(axes, places, [bar.label for bar in bars], each)
        else:
            axes.set_xticks(centres, _group_names(bars, groups, each))
            _legend(figure, handles, width)
        axes.set_xlabel(_seeds_note(bars, groups, width))
    return figure


def _places(
    bars: Sequence[Bar], groups: Sequence[str]
) -> tuple[np.ndarray, list[float]]:
    """Where each bar stands, a gap between groups, and the middle of each group."""
    places, centres, start = np.zeros(len(bars)), [], 0.0
    for group in groups:
        mine = [i for i, bar in enumerate(bars) if bar.group == group]
        places[mine] = start + np.arange(len(mine))
        centres.append(start + (len(mine) - 1) / 2)
        start += len(mine) + 0.7
    return places, centres


def _group_names(bars: Sequence[Bar], groups: Sequence[str], each: float) -> list[str]:
    """As much of a group's name as fits under its bars."""
    sizes = [sum(bar.group == group for bar in bars) for group in groups]
    return [
        shorten(group, max(5, int(each * (size + 0.5) / 5.5)))
        for group, size in zip(groups, sizes, strict=True)
    ]


def _draw_bar(axes: "Axes", place: float, bar: Bar, number: int, axis: Axis) -> Any:
    colour = COLOURS[number % len(COLOURS)]
    hatch = HATCHES[number // len(COLOURS) % len(HATCHES)]
    mean = axis.scale * bar.mean
    handle = axes.bar(
        place, mean, 0.85, color=tint(colour, 0.75), hatch=hatch, edgecolor="white",
        linewidth=0,
    )  # fmt: skip
    if bar.std is not None:
        style: dict[str, Any] = {"ecolor": "black", "elinewidth": 1, "capsize": 3}
        axes.errorbar(place, mean, axis.scale * bar.std, fmt="none", **style)
        values = axis.scale * np.sort(bar.values)
        beside = place + 0.25 * np.linspace(-1, 1, len(values))
        axes.scatter(
            beside, values, s=9, color="white", edgecolor="black", linewidth=0.6,
            zorder=3,
        )  # fmt: skip
    return handle


def _extent(bar: Bar) -> tuple[float, float]:
    """The lowest and highest point of what is drawn of a bar."""
    std = bar.std or 0
    points = (*bar.values, bar.mean - std, bar.mean + std)
    return min(points), max(points)


def lowest(bars: Sequence[Bar]) -> float:
    """The lowest point of anything drawn: an axis may be cut below it, not above."""
    return min(_extent(bar)[0] for bar in bars)


def _bound(axes: "Axes", bars: Sequence[Bar], axis: Axis) -> None:
    """From 0, or where the axis is cut, with room for the numbers above the bars."""
    top = max(0, axis.scale * max(_extent(bar)[1] for bar in bars))
    bottom = min(axis.start, axis.scale * lowest(bars))
    room = 0.12 * ((top - bottom) or 1)
    axes.set_ylim(bottom - (room / 2 if bottom < 0 else 0), top + room)
    if bottom < 0:
        axes.axhline(0, color="black", linewidth=0.8)
    rule(axes)


def _write_value(
    axes: "Axes", place: float, bar: Bar, axis: Axis, upright: bool
) -> None:
    top = axis.scale * max(0, _extent(bar)[1])
    axes.annotate(
        axis.number(axis.scale * bar.mean),
        (place, top),
        (0, 3),
        textcoords="offset points",
        ha="center",
        va="bottom",
        fontsize=8,
        rotation=90 if upright else 0,
    )


def _name_bars(
    axes: "Axes", places: np.ndarray, labels: list[str], each: float
) -> None:
    """Names under the bars, slanted where they are longer than a bar is wide."""
    words = [shorten(label, LABEL_WIDTH) for label in labels]
    axes.set_xticks(places, words)
    if 5 * max(map(len, words)) > each:
        for text in axes.get_xticklabels():
            text.set(rotation=30, ha="right", rotation_mode="anchor")


def _legend(figure: "Figure", handles: dict[str, Any], width: float) -> None:
    words = [shorten(label, LABEL_WIDTH) for label in handles]
    room = int(14 * width) // (max(map(len, words)) + 8)
    columns = max(1, min(len(words), room))
    figure.legend(
        list(handles.values()), words, loc="outside lower left", ncols=columns,
        frameon=False,
    )  # fmt: skip


def _seeds_note(bars: Sequence[Bar], groups: Sequence[str], width: float) -> str:
    named = [shorten(groups[0], LABEL_WIDTH)] if len(groups) == 1 and groups[0] else []
    least, most = (end(len(bar.values) for bar in bars) for end in (min, max))
    if most > 1:
        number = f"{most}" if least == most else f"{least} to {most}"
        between = " " if width > 5 else "\n"
        spread = "whiskers: one standard deviation"
        named.append(f"mean of {number} results (dots),{between}{spread}")
    return "\n".join(named)


def tint(colour: str, strength: float) -> tuple[float, ...]:
    """A colour mixed with white: unlike a translucent one it hides the grid behind."""
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - part) for part in to_rgb(colour))


def span(axes: "Axes", last: float) -> None:
    """Room for four at least, so that one alone is not as wide as the picture."""
    half = max(last + 1.2, 4) / 2
    axes.set_xlim(last / 2 - half, last / 2 + half)


def rule(axes: "Axes") -> None:
    """Thin lines behind everything, by which heights can be read."""
    axes.yaxis.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(colors=GREY, labelcolor="black")
