"""Line plots: scores over rounds or cost, and training losses over local epochs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter, FormatStrFormatter, LogLocator, NullLocator

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import GREY, MARKERS
from furlkit.reports.metrics import Value
from furlkit.reports.summary import Line

DASHED = (0, (3, 1.5))
NARROW = 4.5  # Inches: a column of a paper.
MARKED = 25  # Markers on a line: more markers would hide the line.
# The x axes of `draw_lines`, and their labels.
LABELS = {
    "round": "round",
    "bytes": "bytes sent and received by all clients so far (log scale)",
    "rounds": "communication rounds",
    "epochs": "local epochs, summed over rounds",
}


def draw_lines(
    lines: Sequence[Line], value: Value, frame: Frame = UNFRAMED, over: str = "round"
) -> Figure:
    """Values over one of `LABELS`, with a band of one standard deviation."""
    with style.canvas(6, 3.8, frame) as figure:
        axes = figure.add_subplot(xscale="log" if over == "bytes" else "linear")
        handles = []
        for number, line in enumerate(lines):
            looks = style.look(number)
            every = max(1, len(line.x) // MARKED)
            mean, std = value.scale * line.mean, value.scale * line.std
            handles += axes.plot(line.x, mean, **looks, markersize=4, markevery=every)
            _draw_spread(axes, line.x, mean, std, looks["color"])
        runs = np.concatenate([line.runs for line in lines])
        note = "; ".join(style.note(runs, "runs", "band or bar"))
        axes.set_xlabel("\n".join(filter(None, (LABELS[over], note))))
        _finish(figure, handles, lines, value, lower=bool(frame.title))
        if over == "bytes":
            _tick_bytes(axes, np.concatenate([line.x for line in lines]))
        style.fit_labels(figure)
    return figure


def draw_sweep(
    lines: Sequence[Line], value: Value, over: str, frame: Frame = UNFRAMED
) -> Figure:
    """Values over the numbers of an option, with a band of one standard deviation."""
    every = np.unique(np.concatenate([line.x for line in lines]))
    with style.canvas(5, 3.6, frame) as figure:
        axes = figure.add_subplot()
        _scale(axes, every)
        handles = []
        for number, line in enumerate(lines):
            looks = style.look(number)
            mean, std = value.scale * line.mean, value.scale * line.std
            handles += axes.plot(line.x, mean, **looks, markersize=4)
            _draw_spread(axes, line.x, mean, std, looks["color"])
        axes.set_xticks(every, [f"{number:g}" for number in every])
        axes.xaxis.set_minor_locator(NullLocator())
        runs = np.concatenate([line.runs for line in lines])
        note = "; ".join(style.note(runs, "runs", "band or bar"))
        axes.set_xlabel("\n".join(filter(None, (over, note))))
        axes.set_ylabel(value.label)
        axes.grid(axis="y")
        if any(line.label for line in lines):
            labels = [line.label for line in lines]
            style.legend(figure, handles, labels, lower=bool(frame.title))
        style.fit_labels(figure)
    return figure


def _scale(axes: Axes, every: np.ndarray) -> None:
    """Scale: logarithmic for positive powers of a number; 0 is one step below."""
    positive = every[every > 0]
    if every.min() < 0 or not len(positive) or positive.max() < 8 * positive.min():
        return
    if every.min() > 0:
        axes.set_xscale("log")
    else:
        axes.set_xscale("symlog", linthresh=positive.min())


def draw_loss(
    losses: Sequence[Line], value: Value, frame: Frame = UNFRAMED, log: bool = False
) -> Figure:
    """Losses over local epochs: dashed within a round, solid across an aggregation."""
    with style.canvas(6, 3.8, frame) as figure:
        axes = figure.add_subplot(yscale="log" if log else "linear")
        handles = [_draw_rounds(axes, k, loss) for k, loss in enumerate(losses)]
        axes.set_xlabel(LABELS["epochs"])
        _finish(figure, handles, losses, value, lower=bool(frame.title))
        _explain_styles(axes, losses, narrow=figure.get_figwidth() < NARROW)
        if log:
            axes.set_ylabel(f"{axes.get_ylabel()}, log scale")
            _tick_log(axes)
        style.fit_labels(figure)
    return figure


def _finish(
    figure: Figure, handles: list, lines: Sequence[Line], value: Value, lower: bool
) -> None:
    """Grid, whole ticks, and a legend with the last value of each line."""
    (axes,) = figure.axes
    axes.set_ylabel(value.label)
    axes.xaxis.set_major_locator(style.whole_ticks(10))
    axes.grid(axis="y")
    ends = (f"{x.label} (last: {value.show(x.mean[-1], '.1f')})" for x in lines)
    labels = [end.lstrip() for end in ends]
    style.legend(figure, handles, labels, lower)


def _draw_spread(
    axes: Axes, x: np.ndarray, mean: np.ndarray, std: np.ndarray, colour: str
) -> None:
    """Draw a band, or an error bar for a single point, if values vary."""
    if not std.any():
        return
    if len(x) == 1:
        axes.errorbar(x, mean, std, fmt="none", ecolor=colour, alpha=0.5, capsize=3)
    else:
        band: dict[str, Any] = {"color": colour, "alpha": 0.2, "linewidth": 0}
        axes.fill_between(x, mean - std, mean + std, **band)


def _tick_bytes(axes: Axes, every: np.ndarray) -> None:
    # Within two powers of ten there is room for ticks at 2 and 5.
    subs = (1, 2, 5) if every.max() < 100 * every.min() else (1,)
    ticks = {"major_locator": LogLocator(subs=subs), "minor_locator": NullLocator()}
    axes.xaxis.set(**ticks, major_formatter=EngFormatter("B"))


def _tick_log(axes: Axes) -> None:
    """Add ticks between powers of ten if the axis has few powers."""
    low, high = axes.get_ylim()
    subs = (1, 2, 5) if high > 10 * low else range(1, 10)
    axes.yaxis.set(
        major_locator=LogLocator(subs=subs), minor_locator=NullLocator(),
        major_formatter=FormatStrFormatter("%g"),
    )  # fmt: skip


def _draw_rounds(axes: Axes, number: int, loss: Line) -> Any:
    """Draw each round, then each aggregation; return the handle for the legend."""
    ends, looks = loss.round_ends, style.look(number)
    marker = looks.pop("marker")
    looks |= {"markersize": 4 if len(ends) <= MARKED else 2.5, "linestyle": "-"}
    for here in np.split(np.arange(len(loss.x)), ends + 1):
        x, mean = loss.x[here], loss.mean[here]
        # A round of one epoch has no length for dashes, so draw a marker.
        dot = marker if len(here) == 1 else ""
        axes.plot(x, mean, **{**looks, "linestyle": DASHED}, marker=dot)
        _draw_spread(axes, x, mean, loss.std[here], looks["color"])
    for end in ends:
        jump = slice(end, end + 2)
        axes.plot(loss.x[jump], loss.mean[jump], **looks, marker=marker)
    return Line2D([], [], **looks, marker=marker if len(ends) else "")


def _explain_styles(axes: Axes, losses: Sequence[Line], narrow: bool) -> None:
    """Explain dashed, band and solid, if they appear.

    A narrow picture has no room for a legend in the axes, so the text is below.
    """
    dashed = any(len(loss.x) > len(np.unique(loss.rounds)) for loss in losses)
    mean = {"linestyle": DASHED} if dashed else {"linestyle": "", "marker": MARKERS[0]}
    keys: dict[str, Any] = {"mean of clients": Line2D([], [], color=GREY, **mean)}
    if any(loss.std.any() for loss in losses):
        keys["one standard deviation"] = Patch(color=GREY, alpha=0.2, linewidth=0)
    if any(len(loss.round_ends) for loss in losses):
        solid: dict[str, Any] = {"color": GREY, "marker": MARKERS[0], "markersize": 4}
        keys["aggregation"] = Line2D([], [], **solid)
    if narrow:
        words = {"mean of clients": "dashed" if dashed else "marker",
                 "one standard deviation": "band", "aggregation": "solid"}  # fmt: skip
        note = "; ".join(f"{words[key]}: {key}" for key in keys)
        axes.set_xlabel(f"{axes.get_xlabel()}\n{note}")
    else:
        axes.legend(keys.values(), keys, fontsize=8, frameon=True, framealpha=0.7)
