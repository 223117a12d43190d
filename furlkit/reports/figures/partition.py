"""Pictures of a partition: who holds how many images of which class."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures.style import (
    COLOURS,
    GREY,
    head,
    house_style,
    new_figure,
    whole_ticks,
)
from furlkit.reports.text import plain, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure

WRITTEN = 12  # Counts are written into the cells of a map up to this large.
NAMED = 30  # Every row or column is named up to here.
BUBBLES = 100  # More bubbles a side than these cannot be told apart.
KEY_WIDTH = 0.9  # Inches beside the bubbles for what their sizes mean.


def draw_heat(
    histogram: np.ndarray, sizes: np.ndarray, names: Sequence[str], title: str
) -> "Figure":
    """A map of clients by classes, and beside it how many images each client has.

    Counts of a skewed partition have a long tail, so colours go by their square root.
    """
    from matplotlib.colors import PowerNorm

    clients, classes = histogram.shape
    width, height = 3.2 + 0.42 * classes, 1.9 + 0.3 * clients
    with house_style():
        figure = new_figure(np.clip(width, 5, 10), np.clip(height, 2.8, 8))
        head(figure, title)
        widths = [figure.get_figwidth() - 2, 0.8]
        axes, side = figure.subplots(1, 2, sharey=True, width_ratios=widths)
        most = int(max(1, histogram.max(initial=0)))
        norm = PowerNorm(0.5, vmin=0.5, vmax=most)
        image = axes.imshow(histogram, aspect="auto", cmap=_white_to_blue(), norm=norm)
        axes.spines[:].set(visible=True, color="#CCCCCC")
        _name_ticks(axes.xaxis, np.arange(classes), names, "class")
        _name_ticks(axes.yaxis, np.arange(clients), None, "client")
        if max(histogram.shape) <= WRITTEN:
            _write_counts(axes, histogram, norm(histogram) > 0.55)
        _draw_side(side, sizes)
        scale = "images of a class (square-root scale)"
        ticks = reference_counts(most)
        bar = figure.colorbar(image, ax=side, label=scale, fraction=0.4, ticks=ticks)
        bar.minorticks_off()
        bar.outline.set_visible(False)
    return figure


def draw_bubbles(histogram: np.ndarray, names: Sequence[str], title: str) -> "Figure":
    """A bubble for each client and class, its area in proportion to the images.

    Of many clients or classes, 100 evenly spaced ones are shown, and the axis says so.
    """
    clients, classes = (_evenly(length) for length in histogram.shape)
    shown = histogram[np.ix_(clients, classes)]
    cell = min(0.36, 7.5 / len(clients)), min(0.36, 6.5 / len(classes))
    width, height = 1.3 + KEY_WIDTH + cell[0] * len(clients), cell[1] * len(classes)
    with house_style():
        figure = new_figure(max(width, 4.5), max(1.3 + height, 2.2), "compressed")
        head(figure, title)
        axes = figure.add_subplot(aspect=cell[1] / cell[0])
        axes.set_xlim(-0.5, len(clients) - 0.5 + KEY_WIDTH / cell[0])
        axes.set_ylim(-0.5, len(classes) - 0.5)
        axes.spines[:].set_visible(False)
        _name_ticks(axes.xaxis, clients, None, _part("client", clients, histogram, 0))
        _name_ticks(axes.yaxis, classes, names, _part("class", classes, histogram, 1))
        axes.xaxis.label.set(horizontalalignment="left", x=0)
        most = int(max(1, shown.max(initial=0)))
        places = np.argwhere(shown)
        _bubbles(axes, places, shown[tuple(places.T)] / most, cell)
        _size_key(axes, shown.shape, most, cell)
    return figure


def draw_sizes(sizes: np.ndarray, title: str) -> "Figure":
    """How many images each client has: all there is to see without labels."""
    clients = len(sizes)
    with house_style():
        figure = new_figure(np.clip(1.5 + 0.4 * clients, 4, 8), 3)
        head(figure, title)
        axes = figure.add_subplot()
        if clients <= NAMED:
            bars = axes.bar(np.arange(clients), sizes, color=COLOURS[0], width=0.8)
            numbers = [f"{size:,}" for size in sizes]
            axes.bar_label(bars, numbers, padding=1, fontsize=8)
        else:
            edges = np.arange(clients + 1) - 0.5
            axes.stairs(sizes, edges, fill=True, color=COLOURS[0])
        _name_ticks(axes.xaxis, np.arange(clients), None, "client")
        axes.set_xlim(-0.5, clients - 0.5)
        axes.yaxis.set_major_locator(whole_ticks(6))
        axes.set_ylabel("images")
    return figure


def _white_to_blue() -> Any:
    """White for none at all; a single image already shows, in print too."""
    import matplotlib
    from matplotlib.colors import LinearSegmentedColormap

    shades = matplotlib.colormaps["Blues"](np.linspace(0.15, 1, 256))
    colours = LinearSegmentedColormap.from_list("white to blue", shades)
    return colours.with_extremes(under="white")


def _name_ticks(
    axis: "Axis", numbers: np.ndarray, names: Sequence[str] | None, label: str
) -> None:
    """Name every row or column where they are few, else number some of them."""
    axis.set_label_text(label)
    axis.set_tick_params(length=0)
    if len(numbers) > NAMED:
        axis.set_major_locator(whole_ticks(8))
        axis.set_major_formatter(lambda at, _: _number_at(numbers, at))
        return
    words = [str(n) if names is None else plain(str(names[n])) for n in numbers]
    words = [shorten(text, 16) for text in words]
    axis.set_ticks(range(len(words)), words)
    if axis is axis.axes.xaxis and max(map(len, words), default=0) > 4:
        for text in axis.get_ticklabels():
            text.set(rotation=45, ha="right", rotation_mode="anchor")


def _number_at(numbers: np.ndarray, at: float) -> str:
    return str(numbers[int(at)]) if 0 <= at < len(numbers) else ""


def _write_counts(axes: "Axes", histogram: np.ndarray, dark: np.ndarray) -> None:
    for (client, label), count in np.ndenumerate(histogram):
        if count:
            colour = "white" if dark[client, label] else "black"
            text = f"{count:,}"
            axes.text(label, client, text, ha="center", va="center", color=colour)


def _draw_side(side: "Axes", sizes: np.ndarray) -> None:
    """Sizes of the clients as bars that lie beside the rows of the map."""
    side.spines[:].set_visible(False)
    side.tick_params(left=False, labelleft=False, length=0)
    side.set_xlabel("all images")
    if len(sizes) <= NAMED:
        side.barh(np.arange(len(sizes)), sizes, height=0.8, color="#DDDDDD")
        side.set_xticks([])
        for client, size in enumerate(sizes):
            side.text(0, client, f" {size:,}", va="center")
    else:
        # One filled outline: a thousand bars take longer to draw than the map.
        edges = np.arange(len(sizes) + 1) - 0.5
        side.stairs(sizes, edges, orientation="horizontal", fill=True, color="#BBBBBB")
        side.set_xticks([0, int(sizes.max())], ["0", f"{sizes.max():,}"])
    side.set_xlim(0, max(1, sizes.max(initial=0)))


def _evenly(length: int) -> np.ndarray:
    """Up to 100 positions, first and last among them."""
    return np.linspace(0, length - 1, min(length, BUBBLES)).round().astype(int)


def _part(what: str, shown: np.ndarray, histogram: np.ndarray, side: int) -> str:
    total = histogram.shape[side]
    return what if len(shown) == total else f"{what} ({len(shown)} of {total:,} shown)"


def _bubbles(
    axes: "Axes", places: np.ndarray, areas: np.ndarray, cell: tuple[float, float]
) -> None:
    """Circles that grow and shrink with their cells; one of area 1 just fills its own."""
    from matplotlib.collections import EllipseCollection

    diameters = 0.95 * np.sqrt(areas)
    circles = EllipseCollection(
        diameters,
        diameters,
        np.zeros_like(diameters),
        units="x" if cell[0] <= cell[1] else "y",
        offsets=places,
        offset_transform=axes.transData,
        color=COLOURS[0],
        linewidth=0,
        clip_on=False,
    )
    axes.add_collection(circles, autolim=False)


def _size_key(
    axes: "Axes", shape: tuple[int, ...], most: int, cell: tuple[float, float]
) -> None:
    """Three bubbles beside the others, with the number of images they stand for."""
    counts = reference_counts(most)
    x, top = shape[0] - 0.5 + 0.25 / cell[0], shape[1] - 1
    down = max(1, 0.2 / cell[1])
    places = np.array([(x, top - down * (1.2 + k)) for k in range(len(counts))])
    _bubbles(axes, places, np.array(counts) / most, cell)
    style: dict[str, Any] = {"va": "center", "fontsize": 8, "color": GREY}
    axes.text(x - 0.1 / cell[0], top, "images", **style)
    for (_, y), count in zip(places, counts, strict=True):
        axes.text(x + max(0.6, 0.1 / cell[0]), y, f"{count:,}", **style)


def reference_counts(most: int) -> list[int]:
    """Up to three round numbers, each about a fifth of the one before.

    >>> reference_counts(437)
    [200, 40, 8]
    """
    power = 10 ** (len(str(most)) - 1)
    top = max(step * power for step in (1, 2, 5) if step * power <= most)
    return [top // 5**k for k in range(3) if top // 5**k * 5**k == top]
