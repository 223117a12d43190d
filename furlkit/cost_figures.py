"""Pictures of what a score cost: against the bytes that clients sent and received."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.figures import COLOURS, Line, draw_curve, house_style

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Within so many decades there is room for ticks at 2 and 5.
FEW_DECADES = 2
UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


@dataclass(frozen=True)
class Cost:
    """A line: the score after each round, and the bytes until then; means over runs."""

    label: str
    rounds: np.ndarray
    bytes: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    runs: np.ndarray


def draw_cost(
    costs: Sequence[Cost], value: str, percent: bool, title: str = ""
) -> "Figure":
    """Scores over bytes, which are spread over decades: a tenth is a step to the left."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    lines = [Line(c.label, c.bytes, c.mean, c.std, c.runs) for c in costs]
    every = np.concatenate([cost.bytes for cost in costs])
    figure = draw_curve(lines, value, percent, title)
    with house_style():
        (axes,) = figure.axes
        axes.set_xscale("log")
        few = every.max() < 10**FEW_DECADES * every.min()
        subs: Any = (1, 2, 5) if few else (1,)
        axes.xaxis.set_major_locator(LogLocator(subs=subs))
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: byte_tick(x)))
        axes.xaxis.set_minor_locator(NullLocator())
        for number, line in enumerate(lines):
            _show_spread(axes, number, line, 100 if percent else 1)
        several = any((cost.runs > 1).any() for cost in costs)
        note = (
            "\nmeans of several runs, band or bar: one standard deviation"
            if several
            else ""
        )
        axes.set_xlabel(f"bytes sent and received by all clients until then{note}")
    return figure


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
