"""Common style, colours and output formats of all pictures.

Every drawing function returns a matplotlib Figure and restores the global settings, so
equal numbers give equal bytes, independent of the user's settings.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from textwrap import fill
from typing import Any
from warnings import catch_warnings

import matplotlib.style
import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from furlkit import console
from furlkit.errors import UsageError
from furlkit.files.container.atomic import replacing
from furlkit.files.replaceable import mark_of
from furlkit.reports.figures import Frame
from furlkit.reports.figures.fonts import fit_fonts
from furlkit.reports.text import plain, shorten

# By format: the entry for the command, and entries that differ between versions and days.
METADATA: dict[str, tuple[str, dict[str, None]]] = {
    "png": ("Software", {}),
    "pdf": ("Creator", {"CreationDate": None, "Producer": None}),
    "svg": ("Creator", {"Date": None}),
}
# Okabe and Ito's colours, safe for colour-blind readers; their yellow is too pale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
# Three more for points, equally distinct for colour-blind readers.
TEN_COLOURS = (*COLOURS, "#882255", "#332288", "#B7CC7A")
MARKERS = "osD^vPX"
DASHES = ("-", "--", ":")
GREY = "#555555"
NAMED = 30  # Every row or column of a map is named up to here.
DPI = 150
MOST_PIXELS = 2 * 10**8
_STYLE: dict[str, Any] = {
    "figure.dpi": DPI,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "figure.labelsize": 9,
    "figure.titlesize": 10,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "svg.hashsalt": "furlkit",
    # TrueType, required by publishers: text in a PDF can be searched and edited.
    "pdf.fonttype": 42,
    # A class named "$" is a name, not a formula.
    "text.parse_math": False,
}


def save(
    figure: Figure, output: Path, dpi: int = DPI, *, command: str = "plot"
) -> None:
    """Write a complete figure or no file, in the format of the suffix.

    The file names the command, which may replace the file later.
    """
    kind = output.suffix.lower().lstrip(".")
    width, height = (round(dpi * side) for side in figure.get_size_inches())
    if kind == "png" and (max(width, height) >= 2**16 or width * height > MOST_PIXELS):
        raise UsageError(
            f"--dpi {dpi}: the picture would have {width:,} x {height:,} pixels; lower it"
        )
    with house_style(), replacing(output) as stream, catch_warnings(record=True) as odd:
        if lost := fit_fonts(figure, truetype=kind == "pdf"):
            font = "TrueType font" if kind == "pdf" else "font"
            console.warn(
                f"{output}: no installed {font} has {shorten(lost, 40)}; such characters "
                "are escaped, install a font with them"
            )
        entry, removed = METADATA[kind]
        metadata = {entry: mark_of(command), **removed}
        figure.savefig(stream, format=kind, metadata=metadata, dpi=dpi)
        if any("collapsed to zero" in str(each.message) for each in odd):
            console.warn(f"{output}: the text leaves no room; give a larger --size")


def house_style() -> AbstractContextManager[None]:
    """matplotlib's defaults and our changes, independent of the user's settings."""
    return matplotlib.style.context(["default", _STYLE])


@contextmanager
def canvas(width: float, height: float, frame: Frame) -> Iterator[Figure]:
    """Empty figure in house style, without pyplot.

    The content determines the size, unless the frame has a size.
    """
    with house_style():
        figure = Figure(figsize=frame.size or (width, height), layout="constrained")
        if frame.title:
            room = 0.96 * figure.bbox.width
            title = _filled(
                figure, plain(frame.title), room, _STYLE["figure.titlesize"]
            )
            figure.suptitle(title, x=0.02, ha="left")
        yield figure


def whole_ticks(most: int) -> MaxNLocator:
    """Ticks at whole numbers only, for clients and rounds."""
    return MaxNLocator(most, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])


def note(counts: Iterable[int], what: str, spread: str) -> list[str]:
    """Explain means and spread of the values; empty for single values."""
    ordered = sorted(counts)
    ends = " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1]))))
    of = f"mean of {ends} {what}"
    return [of, f"{spread}: one standard deviation"] if ordered[-1] > 1 else []


def look(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of line number `number`."""
    again, place = divmod(number, len(COLOURS))
    return {
        "color": COLOURS[place],
        "linestyle": DASHES[again % len(DASHES)],
        "marker": MARKERS[(place + again) % len(MARKERS)],
    }


def legend(
    figure: Figure, handles: Sequence[Any], labels: Sequence[str], lower: bool
) -> None:
    """Legend outside the axes, in all columns that fit; `lower`: below the axes."""
    fitting = int(14 * figure.get_figwidth()) // (max(map(len, labels)) + 8)
    columns = max(1, min(len(labels), fitting))
    where: Any = f"outside {'lower' if lower else 'upper'} left"
    figure.legend(handles, labels, loc=where, ncols=columns)


def fit_labels(figure: Figure) -> None:
    """Break labels of axes into lines, up to the length of the y axis or the figure.

    Constrained layout reserves the height of a label, not the length. New lines change
    the axes, so the room is measured until nothing changes.
    """
    labels = [axis.label for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)]
    texts = [label.get_text().split("\n") for label in labels]
    for _ in range(4):
        lay_out(figure)
        rooms = [room for axes in figure.axes for room in _rooms(figure, axes)]
        before = [label.get_text() for label in labels]
        for label, lines, room in zip(labels, texts, rooms, strict=True):
            label.set_text("\n".join(_filled(figure, line, room) for line in lines))
        if before == [label.get_text() for label in labels]:
            break


def lay_out(figure: Figure) -> None:
    """Place everything in a figure, so that positions can be measured."""
    with catch_warnings(record=True):  # `save` warns of missing room and letters.
        figure.draw_without_rendering()


def _rooms(figure: Figure, axes: Axes) -> tuple[float, float]:
    """Pixels for the labels of x and y."""
    area = axes.get_window_extent()
    middle = (area.x0 + area.x1) / 2
    return 2 * min(middle, figure.bbox.width - middle), area.height


def fit_numbers(axes: Axes, columns: int) -> None:
    """Shrink the numbers in the cells of a map to the width of a column.

    Numbers below five points are removed.
    """
    figure = axes.get_figure(root=True)
    if not axes.texts or figure is None:
        return
    lay_out(figure)
    room = 0.92 * axes.get_window_extent().width / columns
    widest = max(text.get_window_extent().width for text in axes.texts)
    size = float(axes.texts[0].get_fontsize()) * min(1, room / max(1, widest))
    for text in list(axes.texts):
        text.set_fontsize(size)
        if size < 5:
            text.remove()


def _filled(
    figure: Figure, line: str, room: float, size: float = _STYLE["font.size"]
) -> str:
    """Break a line of a label at the available number of pixels."""
    written = figure.text(0, 0, line, fontsize=size)
    with catch_warnings(record=True):
        share = room / max(1.0, written.get_window_extent().width)
    written.remove()
    # Letters differ in width, so a line of the mean number of letters may be too long.
    letters = max(8, int(0.93 * share * len(line)))
    return line if share >= 1 else fill(line, letters, break_long_words=False)


def slanted(degrees: float) -> dict[str, Any]:
    """Settings of tick labels that are too long for horizontal text."""
    return {"rotation": degrees, "ha": "right", "rotation_mode": "anchor"}


def slots(axes: Axes, last: float) -> None:
    """Limit x to slots 0 to `last`, but at least four: a single bar stays narrow."""
    half = max(last + 1.2, 4) / 2
    axes.set_xlim(last / 2 - half, last / 2 + half)


def tint(colour: str, strength: float) -> tuple[float, ...]:
    """Colour mixed with white; unlike a translucent colour it hides the grid."""
    return tuple(1 - strength * (1 - part) for part in to_rgb(colour))


def shape_of(panels: int) -> tuple[int, int]:
    """Rows and columns for a number of panels, at most three per row."""
    columns = min(panels, 3)
    return -(-panels // columns), columns


def panels_of(figure: Figure, number: int, **shared: Any) -> list[Axes]:
    """Axes in rows of three."""
    every = figure.subplots(*shape_of(number), squeeze=False, **shared).flatten()
    for axes in every[number:]:
        axes.remove()
    return every[:number].tolist()


def name_ticks(
    axis: Axis, numbers: np.ndarray, names: Sequence[str] | None, label: str, total=0
) -> None:
    """Name every row or column if there are few, otherwise number some of them."""
    some = f" ({len(numbers)} of {total:,} shown)" if total > len(numbers) else ""
    axis.set_label_text(label + some)
    axis.set_tick_params(length=0)
    if len(numbers) > NAMED:
        axis.set_major_locator(whole_ticks(8))
        axis.set_major_formatter(
            lambda at, _: str(numbers[int(at)]) if 0 <= at < len(numbers) else ""
        )
        return
    words = [str(n) if names is None else names[n] for n in numbers]
    long = axis is axis.axes.xaxis and max(map(len, words), default=0) > 4
    looks = slanted(45) if long else {}
    axis.set_ticks(range(len(words)), [shorten(text, 16) for text in words], **looks)
