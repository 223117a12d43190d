"""What all pictures share: style, colours, output formats.

Every drawing function returns a matplotlib Figure and restores the global settings, so
the same numbers give the same bytes whatever the user's own settings are. matplotlib is
imported when something is drawn.
"""

import importlib.util
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from furlkit.errors import FurlkitError, UsageError
from furlkit.files.container.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Removed from files, by format: it differs between versions and from day to day.
METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
# Okabe and Ito's colours, safe for colour-blind readers; their yellow is too pale.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = "osD^vPX"
DASHES = ("-", "--", ":")
GREY = "#555555"
_STYLE = {
    "figure.dpi": 150,
    "savefig.dpi": 150,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "svg.hashsalt": "furlkit",
    # A class named "$" is a name, not a formula.
    "text.parse_math": False,
}


def format_of(output: Path) -> str:
    """The format that a file's suffix names."""
    suffix = output.suffix.lower().lstrip(".")
    if suffix not in METADATA:
        known = ", ".join(f".{name}" for name in METADATA)
        raise UsageError(f"-o {output}: cannot draw '{output.suffix}'; use {known}")
    return suffix


def check_output(output: Path) -> None:
    """Refuse an output that cannot be drawn, before anything is read."""
    format_of(output)
    if importlib.util.find_spec("matplotlib") is None:
        raise FurlkitError(
            "plot needs matplotlib; install it with: pip install 'furlkit[plot]'"
        )


def save(figure: "Figure", output: Path) -> None:
    """Write a figure whole or not at all, in the format of the suffix."""
    kind = format_of(output)
    with house_style(), replacing(output) as stream:
        figure.savefig(stream, format=kind, metadata=METADATA[kind])


@contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's defaults and our changes, whatever the user's own settings are."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


@contextmanager
def canvas(width: float, height: float, title: str) -> Iterator["Figure"]:
    """An empty figure with the Agg canvas, without pyplot, to draw on in house style."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with house_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        if title:
            figure.suptitle(title, x=0.02, ha="left", fontsize=10)
        yield figure


def whole_ticks(most: int) -> Any:
    """Ticks at whole numbers only: there is no half client and no tenth of a round."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])


def span(numbers: Iterable[int]) -> str:
    """The least and the most of some numbers: "3", or "1 to 3"."""
    ordered = sorted(numbers)
    return " to ".join(map(str, dict.fromkeys((ordered[0], ordered[-1]))))


def look(number: int) -> dict[str, Any]:
    """Colour, dashes and marker of the line of this number."""
    again, place = divmod(number, len(COLOURS))
    return {
        "color": COLOURS[place],
        "linestyle": DASHES[again % len(DASHES)],
        "marker": MARKERS[(place + again) % len(MARKERS)],
    }


def legend(
    figure: "Figure", handles: Sequence[Any], labels: Sequence[str], lower: bool
) -> None:
    """A legend outside the axes, in as many columns as fit; `lower` is below them."""
    fitting = int(14 * figure.get_figwidth()) // (max(map(len, labels)) + 8)
    columns = max(1, min(len(labels), fitting))
    where: Any = f"outside {'lower' if lower else 'upper'} left"
    figure.legend(list(handles), list(labels), loc=where, ncols=columns, frameon=False)


def grid_lines(axes: "Axes") -> None:
    """Thin horizontal lines behind everything, to read heights by."""
    axes.yaxis.grid(True, color="#DDDDDD", linewidth=0.6)
    axes.set_axisbelow(True)


def slots(axes: "Axes", last: float) -> None:
    """Limit x to slots 0 to `last`, but at least four: a single bar stays narrow."""
    half = max(last + 1.2, 4) / 2
    axes.set_xlim(last / 2 - half, last / 2 + half)


def tint(colour: str, strength: float) -> tuple[float, ...]:
    """A colour mixed with white: unlike a translucent one it hides the grid behind."""
    from matplotlib.colors import to_rgb

    return tuple(1 - strength * (1 - part) for part in to_rgb(colour))


def panels_of(figure: "Figure", number: int, **shared: Any) -> list["Axes"]:
    """So many axes in rows of three."""
    columns = min(number, 3)
    rows = -(-number // columns)
    every = list(figure.subplots(rows, columns, squeeze=False, **shared).flat)
    for axes in every[number:]:
        axes.remove()
    return every[:number]
