"""Scatter plots of features: a point per image, coloured by class or client."""

from collections.abc import Sequence
from itertools import product
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import TEN_COLOURS
from furlkit.reports.summary import Cloud
from furlkit.reports.text import plain, shorten

SIDE = 3.4  # Inches of a panel.
REST = "#D4D4D4"
MARKS = ("o", "x", "^")  # Distinct at the size of a point.
LOOKS = tuple(product(MARKS, TEN_COLOURS))  # More classes than these get a colour bar.
LONGEST = 16  # Entries in a column of the legend, and letters of a class name.


def draw_clouds(
    clouds: Sequence[Cloud],
    names: dict[int, str],
    frame: Frame = UNFRAMED,
    by: str = "class",
) -> Figure:
    """Panels side by side. Distances have no unit, so the axes have no numbers.

    `names` are names of the coloured classes; other classes are grey. `by` names the
    meaning of colours, if not the class.
    """
    short = [shorten(name, LONGEST) for name in names.values()]
    entries = list(zip(LOOKS, short, strict=False))
    if any(set(cloud.labels.tolist()) - names.keys() for cloud in clouds):
        entries.append(((MARKS[0], REST), "other classes"))
    few = len(names) <= len(LOOKS)
    beside = 2 if few and len(entries) > LONGEST else 1
    rows, columns = style.shape_of(len(clouds))
    size = SIDE * columns + 1.4 * beside, (SIDE + 0.2) * rows + 0.3
    with style.canvas(*size, frame) as figure:
        if frame.title:  # Beside the legend, which has the right edge.
            letters = max(8, int(12 * (figure.get_figwidth() - beside)))
            figure.suptitle(fill(plain(frame.title), letters), x=0.02, ha="left")
        panels = style.panels_of(figure, len(clouds))
        for axes, cloud in zip(panels, clouds, strict=True):
            axes.set_title(shorten(cloud.label, 36))
            axes.set_aspect("equal", adjustable="datalim")
            axes.set(xticks=[], yticks=[])
            axes.spines[:].set(visible=True, color="#CCCCCC")
            points = _draw_points(axes, cloud, list(names))
        if few:
            _draw_legend(figure, entries, by, beside)
        else:
            places = np.linspace(0, len(names) - 1, 6).round().astype(int).tolist()
            bar = figure.colorbar(points, ax=panels, fraction=0.05, aspect=30)
            bar.set_label(by)
            bar.set_ticks(places, labels=[short[place] for place in places])
    return figure


def _draw_legend(
    figure: Figure, entries: list[tuple[tuple[str, str], str]], title: str, columns: int
) -> None:
    """Coloured marker and name for each entry."""
    handles = [
        Line2D([], [], linestyle="", markersize=5, marker=mark, color=colour)
        for (mark, colour), _ in entries
    ]
    figure.legend(
        handles, [name for _, name in entries], loc="outside right upper", title=title,
        alignment="left", handletextpad=0.2, columnspacing=1, ncols=columns
    )  # fmt: skip


def _draw_points(axes: Axes, cloud: Cloud, shown: Sequence[int]) -> Any:
    """Draw grey points first, then the classes mixed: no class covers another."""
    size = float(np.clip(9000 / max(1, len(cloud.points)), 4, 22))
    rank = {label: place for place, label in enumerate(shown)}
    ranks = np.array([rank.get(label, -1) for label in cloud.labels.tolist()], int)
    x, y = cloud.points.T
    axes.scatter(x[ranks < 0], y[ranks < 0], s=size, color=REST, linewidth=0)
    if len(shown) > len(LOOKS):
        mine = ranks >= 0
        shades: dict[str, Any] = {"cmap": "turbo", "vmin": 0, "vmax": len(shown) - 1}
        shades |= {"c": ranks[mine], "linewidth": 0}
        return axes.scatter(x[mine], y[mine], s=size, **shades)
    for turn, mark in enumerate(MARKS):
        mine = ranks // len(TEN_COLOURS) == turn
        colours = [LOOKS[place][1] for place in ranks[mine]]
        width = 0.9 if mark == "x" else 0
        looks: dict[str, Any] = {"marker": mark, "linewidth": width, "alpha": 0.85}
        axes.scatter(x[mine], y[mine], s=size, c=colours, **looks)
    return None
