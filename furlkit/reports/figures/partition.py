"""Pictures of a partition: number of images of each class at every client.

`domains` has the name of each client's domain; empty without domains.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import ListedColormap, PowerNorm
from matplotlib.figure import Figure

from furlkit.reports.figures import Frame, style
from furlkit.reports.figures.style import COLOURS, NAMED, name_ticks, whole_ticks
from furlkit.reports.text import shorten

WRITTEN = 12  # Counts are written into the cells of a map up to this large.
NARROW = 4  # Inches; a column of a paper is narrower.
BUBBLES = 100  # More bubbles than these on a side are too small to see.
Names = Sequence[str]


def draw_heat(
    histogram: np.ndarray,
    sizes: np.ndarray,
    names: Names,
    frame: Frame,
    domains: Names = (),
) -> Figure:
    """Map of clients by classes, and a bar with the number of images of each client.

    Counts of a skewed partition have a long tail, so colours follow the square root.
    """
    clients, classes = histogram.shape
    width = np.clip(3.2 + 0.42 * classes, 5, 10)
    height = np.clip(1.9 + 0.3 * clients, 2.8, 8)
    with style.canvas(width, height, frame) as figure:
        wide = figure.get_figwidth()
        widths = [max(1, wide - 2), 0.8 if wide > NARROW else 0.45]
        axes, side = figure.subplots(1, 2, sharey=True, width_ratios=widths)
        # White means no image; the palest blue is left out, to show single images.
        norm = PowerNorm(0.5, vmin=0.5, vmax=max(1, histogram.max(initial=0)))
        blues = ListedColormap(colormaps["Blues"](np.linspace(0.15, 1, 256)))
        image = axes.imshow(
            histogram, aspect="auto", cmap=blues.with_extremes(under="white"), norm=norm
        )
        axes.spines[:].set(visible=True, color="#CCCCCC")
        name_ticks(axes.xaxis, np.arange(classes), names, "class")
        _name_clients(axes.yaxis, np.arange(clients), domains)
        if max(histogram.shape) <= WRITTEN:
            for (client, label), count in np.ndenumerate(histogram):
                colour = "white" if norm(count) > 0.55 else "black"
                text = f"{count:,}" if count else ""
                axes.text(label, client, text, ha="center", va="center", color=colour)
        _draw_side(side, sizes)
        scale = "images of a class (square-root scale)"
        bar = figure.colorbar(image, ax=side, label=scale, fraction=0.4)
        bar.locator = whole_ticks(4)
        bar.minorticks_off()
        style.fit_labels(figure)
        style.fit_numbers(axes, classes)
    return figure


def _draw_side(side: Axes, sizes: np.ndarray) -> None:
    """Bars with the sizes of the clients, beside the rows of the map."""
    side.spines[:].set_visible(False)
    side.tick_params(left=False, labelleft=False, length=0)
    side.set_xlabel("all images")
    # One filled outline: a thousand bars take longer to draw than the map.
    edges = np.arange(len(sizes) + 1) - 0.5
    side.stairs(sizes, edges, orientation="horizontal", fill=True, color="#DDDDDD")
    most = int(max(1, sizes.max(initial=0)))
    side.set(xlim=(0, most), xticks=[0, most])
    if len(sizes) <= NAMED:
        side.set_xticks([])
        for client, size in enumerate(sizes):
            side.text(0, client, f" {size:,}", va="center")


def draw_bubbles(
    histogram: np.ndarray, names: Names, frame: Frame, domains: Names = ()
) -> Figure:
    """Bubble for each client and class, with an area proportional to the images.

    Of many clients or classes, 100 evenly spaced ones are drawn, and the axis says so.
    """
    shown_of = [np.linspace(0, n - 1, min(n, BUBBLES)) for n in histogram.shape]
    clients, classes = (shown.round().astype(int) for shown in shown_of)
    shown = histogram[np.ix_(clients, classes)]
    widest = max((len(names[k]) for k in classes), default=0)
    left = 0.6 + 0.08 * min(16, widest)
    # A cell has the largest possible side, up to 0.36 inches.
    width = max(4.5, left + 1.1 + min(0.36 * len(clients), 7.5))
    height = max(2.4, 1.3 + min(0.36 * len(classes), 6.5))
    with style.canvas(width, height, frame) as figure:
        across = (figure.get_figwidth() - left - 1.1) / len(clients)
        upwards = (figure.get_figheight() - 1.3) / len(classes)
        axes = figure.add_subplot()
        axes.spines[:].set_visible(False)
        axes.set(xlim=(-0.5, len(clients) - 0.5), ylim=(-0.5, len(classes) - 0.5))
        _name_clients(axes.xaxis, clients, domains, len(histogram))
        name_ticks(axes.yaxis, classes, names, "class", histogram.shape[1])
        places = np.argwhere(shown)
        most = int(max(1, shown.max(initial=0)))
        side = min(0.36, max(0.01, min(across, upwards)))
        area = (0.9 * 72 * side) ** 2 / most  # Square points; the largest fits.
        looks: dict[str, Any] = {"color": COLOURS[0], "linewidth": 0, "clip_on": False}
        sizes = area * shown[tuple(places.T)]
        axes.scatter(places[:, 0], places[:, 1], s=sizes, **looks)
        counts = [int(n) for n in whole_ticks(4).tick_values(0, most) if 0 < n <= most]
        figure.legend(
            [axes.scatter([], [], s=area * n, **looks) for n in counts],
            [f"{n:,}" for n in counts], loc="outside right upper", title="images",
            labelspacing=1.8, borderpad=1
        )  # fmt: skip
    return figure


def draw_sizes(sizes: np.ndarray, frame: Frame, domains: Names = ()) -> Figure:
    """Number of images of each client, the only picture without labels."""
    clients = len(sizes)
    with style.canvas(np.clip(1.5 + 0.4 * clients, 4, 8), 3, frame) as figure:
        axes = figure.add_subplot()
        axes.stairs(sizes, np.arange(clients + 1) - 0.5, fill=True, color=COLOURS[0])
        if clients <= NAMED:
            for client, size in enumerate(sizes):
                axes.text(client, size, f"{size:,}", ha="center", va="bottom")
        _name_clients(axes.xaxis, np.arange(clients), domains)
        axes.set_xlim(-0.5, clients - 0.5)
        axes.yaxis.set_major_locator(whole_ticks(6))
        axes.set_ylabel("images")
    return figure


def _name_clients(axis: Axis, numbers: np.ndarray, domains: Names, total=0) -> None:
    """Name clients by number and domain; lines separate the domains."""
    names = [f"{k} {domain}".rstrip() for k, domain in enumerate(domains)]
    name_ticks(axis, numbers, names or None, "client", total)
    if not domains:
        return
    shown = [domains[number] for number in numbers]
    ends = [k for k in range(1, len(shown)) if shown[k] != shown[k - 1]]
    line = axis.axes.axvline if axis is axis.axes.xaxis else axis.axes.axhline
    for end in ends:
        line(end - 0.5, color="#666666", linewidth=0.8)
    if len(numbers) > NAMED >= len(ends):
        bounds = list(itertools.pairwise([0, *ends, len(shown)]))
        middles = [(start + end - 1) / 2 for start, end in bounds]
        axis.set_ticks(middles, [shorten(shown[start], 16) for start, _ in bounds])
