"""Scatter plots of features: a point for each image, coloured by its class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures import style
from furlkit.reports.figures.style import COLOURS
from furlkit.reports.text import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SIDE = 3.4  # Inches of a panel.
REST = "#D4D4D4"
MARKS = ("o", "x", "^")  # Distinct at the size of a point.
MOST = len(COLOURS) * len(MARKS)  # More classes than these get a colour bar.
LONGEST = 16  # Entries in a column of the legend, and letters of a class name.


@dataclass(frozen=True)
class Cloud:
    """The points of one panel, (n, 2) once laid out, and the class of each."""

    label: str
    points: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Key:
    """The classes in colour, others being grey; names of all; whether all are shown."""

    shown: tuple[int, ...]
    names: Sequence[str]
    whole: bool

    def name(self, label: int) -> str:
        """A class as the legend has it."""
        return shorten(plain(str(self.names[label])), LONGEST)


def draw_clouds(clouds: Sequence[Cloud], key: Key, title: str = "") -> "Figure":
    """Panels side by side. Distances have no unit, so the axes have no numbers."""
    columns = min(len(clouds), 3)
    rows = -(-len(clouds) // columns)
    width = SIDE * columns + 1.4 * _legend_columns(key)
    with style.canvas(width, (SIDE + 0.2) * rows + 0.3, title) as figure:
        panels = style.panels_of(figure, len(clouds))
        for axes, cloud in zip(panels, clouds, strict=True):
            axes.set_title(shorten(cloud.label, 36))
            axes.set_aspect("equal", adjustable="datalim")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color="#CCCCCC")
            points = _draw_points(axes, cloud, key)
        if len(key.shown) > MOST:
            bar = figure.colorbar(points, ax=panels, fraction=0.05, aspect=30)
            bar.set_label("class")
            places = np.linspace(0, len(key.shown) - 1, 6).round().astype(int).tolist()
            bar.set_ticks(places, labels=[key.name(key.shown[p]) for p in places])
        else:
            _draw_legend(figure, key)
    return figure


def _draw_points(axes: "Axes", cloud: Cloud, key: Key) -> Any:
    """Grey points first; then all classes mixed, so that none covers another."""
    size = float(np.clip(9000 / max(1, len(cloud.points)), 4, 22))
    rank = {label: place for place, label in enumerate(key.shown)}
    ranks = np.array([rank.get(int(label), -1) for label in cloud.labels], dtype=int)
    x, y = cloud.points.T
    axes.scatter(x[ranks < 0], y[ranks < 0], s=size, color=REST, linewidth=0)
    if len(key.shown) > MOST:
        mine, last = ranks >= 0, len(key.shown) - 1
        shades: dict[str, Any] = {"cmap": "turbo", "vmin": 0, "vmax": last}
        return axes.scatter(
            x[mine], y[mine], s=size, c=ranks[mine], linewidth=0, **shades
        )
    for turn, mark in enumerate(MARKS):
        mine = (ranks >= 0) & (ranks // len(COLOURS) == turn)
        colours = [COLOURS[place % len(COLOURS)] for place in ranks[mine]]
        looks: dict[str, Any] = {
            "marker": mark,
            "linewidth": 0.9 if mark == "x" else 0,
            "alpha": 0.85,
        }
        axes.scatter(x[mine], y[mine], s=size, c=colours, **looks)
    return None


def _legend_columns(key: Key) -> int:
    return 2 if LONGEST < len(key.shown) + (not key.whole) <= MOST + 1 else 1


def _draw_legend(figure: "Figure", key: Key) -> None:
    from matplotlib.lines import Line2D

    entries = [
        (MARKS[place // len(COLOURS)], COLOURS[place % len(COLOURS)], key.name(label))
        for place, label in enumerate(key.shown)
    ]
    if not key.whole:
        entries.append((MARKS[0], REST, "other classes"))
    handles = [
        Line2D([], [], linestyle="", markersize=5, marker=mark, color=colour)
        for mark, colour, _ in entries
    ]
    figure.legend(
        handles, [name for _, _, name in entries], loc="outside right upper",
        title="class", alignment="left", frameon=False, handletextpad=0.2,
        columnspacing=1, ncols=_legend_columns(key)
    )  # fmt: skip
