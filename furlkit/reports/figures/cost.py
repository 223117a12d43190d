"""Pictures of what a score cost: in bytes, in rounds, or in local epochs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from furlkit.reports.figures.style import COLOURS, Line, draw_curve, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Within so many decades there is room for ticks at 2 and 5.
FEW_DECADES = 2
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")
# What may stand on the x axis, and what is written below it.
LABELS = {
    "bytes": "bytes sent and received by all clients until then",
    "rounds": "communication rounds",
    "epochs": "local epochs, all rounds together",
}


@dataclass(frozen=True)
class Cost:
    """A line: scores of models, and what was spent until then; means over runs.

    `epochs` are None where a run's files do not tell them.
    """

    label: str
    rounds: np.ndarray
    epochs: np.ndarray
    bytes: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    runs: np.ndarray

    def over(self, what: str) -> np.ndarray:
        """Where the points stand on the axis of this name."""
        return np.asarray(getattr(self, what), float)


def draw_cost(
    costs: Sequence[Cost],
    value: str,
    percent: bool,
    title: str = "",
    over: str = "bytes",
) -> "Figure":
    """Scores over one of `LABELS`, a line a method."""
    lines = [Line(c.label, c.over(over), c.mean, c.std, c.runs) for c in costs]
    scale: Literal["linear", "log"] = "log" if over == "bytes" else "linear"
    figure = draw_curve(lines, value, percent, title, scale)
    with house_style():
        (axes,) = figure.axes
        if over == "bytes":
            _tick_bytes(axes, np.concatenate([line.rounds for line in lines]))
        for number, line in enumerate(lines):
            _show_spread(axes, number, line, 100 if percent else 1)
        axes.set_xlabel(LABELS[over] + _runs_note(costs))
    return figure


def _tick_bytes(axes: "Axes", every: np.ndarray) -> None:
    """Ticks of an axis on which a tenth is a step to the left."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    few = every.max() < 10**FEW_DECADES * every.min()
    subs: Any = (1, 2, 5) if few else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=subs))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: byte_tick(x)))
    axes.xaxis.set_minor_locator(NullLocator())


def _runs_note(costs: Sequence[Cost]) -> str:
    if not any((cost.runs > 1).any() for cost in costs):
        return ""
    return "\nmeans of several runs, band or bar: one standard deviation"


def _show_spread(axes: "Axes", number: int, line: Line, scale: float) -> None:
    """A method of one round, as FLESD-cc, is a point, of which a band shows nothing."""
    if len(line.rounds) == 1 and line.runs[0] > 1:
        colour = COLOURS[number % len(COLOURS)]
        mean, std = scale * line.mean, scale * line.std
        axes.errorbar(line.rounds, mean, std, fmt="none", ecolor=colour, capsize=3)


def byte_tick(amount: float) -> str:
    """Bytes at a tick, in the unit that suits them.

    >>> byte_tick(2e7)
    '20 MB'
    """
    power = int(np.clip(np.floor(np.log10(amount) / 3 + 1e-9), 0, len(UNITS) - 1))
    return f"{amount / 1000**power:g} {UNITS[power]}"
