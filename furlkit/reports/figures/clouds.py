"""Pictures of features: every image a point, coloured by its class."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures.style import COLOURS, head, house_style, new_figure
from furlkit.reports.text import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # Panels in a row.
SIDE = 3.4  # Inches of a panel.
REST = "#D4D4D4"
# Discs, then crosses and triangles: told apart at the size of a point.
MARKS = ("o", "x", "^")
MOST = len(COLOURS) * len(MARKS)  # More classes than these have no mark of their own.
NAME_WIDTH = 16
LONGEST = 16  # Entries in a column of the legend.


@dataclass(frozen=True)
class Cloud:
    """The points (n, 2) of one panel and the class of each."""

    label: str
    points: np.ndarray
    labels: np.ndarray


@dataclass(frozen=True)
class Key:
    """Which classes are in colour, the rest being grey, and what all are called."""

    shown: tuple[int, ...]
    names: Sequence[str]
    whole: bool

    def name(self, label: int) -> str:
        """A class as the legend has it."""
        return shorten(plain(str(self.names[label])), NAME_WIDTH)


def draw_clouds(clouds: Sequence[Cloud], key: Key, title: str = "") -> "Figure":
    """Panels side by side. Distances have no unit, so the axes have no numbers."""
    columns = min(len(clouds), COLUMNS)
    rows = -(-len(clouds) // columns)
    with house_style():
        width = SIDE * columns + 1.4 * _legend_columns(key)
        figure = new_figure(width, (SIDE + 0.2) * rows + 0.3)
        head(figure, title)
        grid = figure.subplots(rows, columns, squeeze=False)
        for axes in grid.flat[len(clouds) :]:
            axes.remove()
        for axes, cloud in zip(grid.flat, clouds, strict=False):
            axes.set_title(shorten(cloud.label, 36))
            axes.set_aspect("equal", adjustable="datalim")
            axes.set_xticks([])
            axes.set_yticks([])
            axes.spines[:].set(visible=True, color="#CCCCCC")
            _draw_points(axes, cloud, key)
        if len(key.shown) > MOST:
            _colour_bar(figure, grid, key)
        else:
            _legend(figure, key)
    return figure


def _draw_points(axes: "Axes", cloud: Cloud, key: Key) -> None:
    """The rest first; then points of all classes mixed, so that none covers another."""
    size = float(np.clip(9000 / max(1, len(cloud.points)), 4, 22))
    rank = {label: place for place, label in enumerate(key.shown)}
    ranks = np.array([rank.get(int(label), -1) for label in cloud.labels], dtype=int)
    x, y = cloud.points.T
    rest, mine = ranks < 0, ranks >= 0
    axes.scatter(x[rest], y[rest], s=size, color=REST, linewidth=0)
    if len(key.shown) > MOST:
        shades = _shades(key)
        axes.scatter(x[mine], y[mine], s=size, c=ranks[mine], linewidth=0, **shades)
        return
    for turn in range(len(MARKS)):
        mine = (ranks >= 0) & (ranks // len(COLOURS) == turn)
        colours = [COLOURS[place % len(COLOURS)] for place in ranks[mine]]
        axes.scatter(x[mine], y[mine], s=size, c=colours, **_mark(turn))


def _mark(turn: int) -> dict[str, Any]:
    width = 0.9 if MARKS[turn] == "x" else 0
    return {"marker": MARKS[turn], "linewidth": width, "alpha": 0.85}


def _shades(key: Key) -> dict[str, Any]:
    return {"cmap": "turbo", "vmin": 0, "vmax": len(key.shown) - 1}


def _colour_bar(figure: "Figure", grid: np.ndarray, key: Key) -> None:
    """Hundreds of classes: neighbours in number are neighbours in colour."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Normalize

    shades = _shades(key)
    scale = ScalarMappable(Normalize(shades["vmin"], shades["vmax"]), shades["cmap"])
    panels = [axes for axes in grid.flat if axes.figure is not None]
    bar = figure.colorbar(scale, ax=panels, fraction=0.05, aspect=30, label="class")
    places = np.linspace(0, len(key.shown) - 1, 6).round().astype(int)
    bar.set_ticks(
        places.tolist(), labels=[key.name(key.shown[place]) for place in places]
    )
    bar.outline.set_visible(False)


def _legend_columns(key: Key) -> int:
    return 2 if LONGEST < len(key.shown) + (not key.whole) <= MOST + 1 else 1


def _legend(figure: "Figure", key: Key) -> None:
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
        title="class", title_fontsize=9, alignment="left", frameon=False,
        handletextpad=0.2, columnspacing=1, ncols=_legend_columns(key),
    )  # fmt: skip
