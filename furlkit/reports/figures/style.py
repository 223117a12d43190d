"""Pictures, drawn from numbers.

Every function gives a matplotlib Figure and touches no global state for longer than
it takes, so that the same numbers give the same bytes whatever the user's settings.
matplotlib is imported when something is drawn.
"""

import importlib.util
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from furlkit.errors import FurlkitError, UsageError
from furlkit.files.container.atomic import replacing

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Layout = Literal["constrained", "compressed"]
# What would make two files of one picture differ, by format.
METADATA: dict[str, dict[str, None]] = {
    "png": {"Software": None},
    "pdf": {"CreationDate": None, "Creator": None, "Producer": None},
    "svg": {"Date": None, "Creator": None},
}
# Okabe and Ito's colours, told apart by colour-blind readers; yellow is too pale here.
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


@dataclass(frozen=True)
class Line:
    """One curve: for each round the mean of its runs and their standard deviation."""

    label: str
    rounds: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    runs: np.ndarray


def format_of(output: Path) -> str:
    """The format a file's suffix asks for."""
    suffix = output.suffix.lower().lstrip(".")
    if suffix not in METADATA:
        wanted = ", ".join(f".{name}" for name in METADATA)
        raise UsageError(f"-o {output}: cannot draw '{output.suffix}'; use {wanted}")
    return suffix


def check_output(output: Path) -> None:
    """Refuse what cannot be drawn before anything is read."""
    format_of(output)
    if importlib.util.find_spec("matplotlib") is None:
        raise FurlkitError(
            "plot needs matplotlib; install it with: pip install 'furlkit[plot]'"
        )


def save(figure: "Figure", output: Path) -> None:
    """Write a figure whole, in the format of the suffix."""
    kind = format_of(output)
    with house_style(), replacing(output) as stream:
        figure.savefig(stream, format=kind, metadata=METADATA[kind])


@contextmanager
def house_style() -> Iterator[None]:
    """matplotlib's defaults and our changes, whatever the user's own settings are."""
    import matplotlib.style

    with matplotlib.style.context(["default", _STYLE]):
        yield


def new_figure(width: float, height: float, layout: Layout = "constrained") -> "Figure":
    """An empty figure with the Agg canvas, unknown to pyplot."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout=layout)
    FigureCanvasAgg(figure)
    return figure


def whole_ticks(most: int) -> Any:
    """Ticks at round whole numbers: half a client or a tenth of a round is none."""
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(most, integer=True, min_n_ticks=1, steps=[1, 2, 5, 10])


def head(figure: "Figure", title: str) -> None:
    """Write the title, if there is one."""
    if title:
        figure.suptitle(title, x=0.02, ha="left", fontsize=10)


def draw_curve(
    lines: Sequence[Line],
    value: str,
    percent: bool,
    title: str = "",
    xscale: Literal["linear", "log"] = "linear",
) -> "Figure":
    """Values through rounds, one line each, with a band of one standard deviation."""
    with house_style():
        figure = new_figure(6, 3.8)
        axes = figure.add_subplot(xscale=xscale)
        scale = 100 if percent else 1
        handles = [_draw_line(axes, i, line, scale) for i, line in enumerate(lines)]
        axes.xaxis.set_major_locator(whole_ticks(10))
        axes.yaxis.grid(True, color="#DDDDDD", linewidth=0.6)
        axes.set_axisbelow(True)
        axes.set_xlabel("round" + _runs_note(lines))
        axes.set_ylabel(f"{value} (%)" if percent else value)
        head(figure, title)
        if len(lines) > 1:
            labels = [line.label for line in lines]
            legend(figure, handles, labels, below=bool(title))
        figure.draw_without_rendering()
        ends = [(line.rounds[-1], scale * line.mean[-1]) for line in lines]
        texts = [f"{y:.1f}" if percent else f"{y:.4g}" for _, y in ends]
        colours = [COLOURS[i % len(COLOURS)] for i in range(len(lines))]
        annotate_ends(axes, ends, texts, colours)
    return figure


def _draw_line(axes: "Axes", number: int, line: Line, scale: float) -> Any:
    colour = COLOURS[number % len(COLOURS)]
    mean, std = scale * line.mean, scale * line.std
    # Markers tell lines apart in grey print; hundreds of them would hide the lines.
    (handle,) = axes.plot(
        line.rounds,
        mean,
        color=colour,
        linestyle=DASHES[number // len(COLOURS) % len(DASHES)],
        marker=MARKERS[number % len(MARKERS)],
        markersize=4,
        markevery=max(1, len(line.rounds) // 25),
        linewidth=1.5,
    )
    if (line.runs > 1).any():
        axes.fill_between(
            line.rounds, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0
        )
    return handle


def _runs_note(lines: Sequence[Line]) -> str:
    runs = np.concatenate([line.runs for line in lines])
    if runs.max() == 1:
        return ""
    least, most = runs.min(), runs.max()
    number = f"{most}" if least == most else f"{least} to {most}"
    return f"\nmean of {number} scores, band: one standard deviation up and down"


def legend(
    figure: "Figure", handles: list[Any], labels: list[str], below: bool
) -> None:
    """Outside the axes, on the side that no title takes."""
    columns = max(1, min(len(labels), 84 // (max(map(len, labels)) + 8)))
    where: Literal["outside lower left", "outside upper left"] = (
        "outside lower left" if below else "outside upper left"
    )
    figure.legend(handles, labels, loc=where, ncols=columns, frameon=False)


def annotate_ends(
    axes: "Axes",
    ends: Sequence[tuple[float, float]],
    texts: Sequence[str],
    colours: Sequence[str],
) -> None:
    """Write the last value of each line beside it, pushed apart where they crowd.

    The figure must have been drawn: only then is it known where its lines end.
    """
    pixels, point = axes.transData.transform, axes.figure.dpi / 72
    across, heights = np.array([pixels(end) for end in ends]).T
    for here in neighbours(across, 6 * point * max(map(len, texts))):
        heights[here] = spread_apart(heights[here], 9 * point, axes.bbox.y1)
    for end, height, text, colour in zip(ends, heights, texts, colours, strict=True):
        up = (height - pixels(end)[1]) / point
        axes.annotate(
            text, end, (7, up), textcoords="offset points", va="center", color=colour
        )


def neighbours(places: np.ndarray, width: float) -> list[np.ndarray]:
    """Which places crowd: indices in groups, the next group at least `width` away."""
    order = np.argsort(places, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(places[order]) >= width) + 1)


def spread_apart(heights: np.ndarray, gap: float, top: float) -> np.ndarray:
    """Move heights as little as needed for neighbours to be `gap` apart, order kept.

    Crowded neighbours form a block, evenly spaced around the mean of what they were.
    None ends up above `top`.
    """
    order = np.argsort(heights, kind="stable")
    highest = top - gap * np.arange(len(heights))[::-1]
    blocks: list[tuple[float, int]] = []
    for height in np.minimum(heights[order], highest):
        centre, size = float(height), 1
        while blocks and centre - blocks[-1][0] < gap * (size + blocks[-1][1]) / 2:
            below, count = blocks.pop()
            centre = (below * count + centre * size) / (count + size)
            size += count
        blocks.append((centre, size))
    placed = [
        centre + gap * (k - (size - 1) / 2)
        for centre, size in blocks
        for k in range(size)
    ]
    result = np.empty(len(heights))
    result[order] = placed
    return result
