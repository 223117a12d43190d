"""Pictures of angles between representations, as boxes by round."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures.scores import rule, span, tint
from furlkit.reports.figures.style import COLOURS, head, house_style, new_figure
from furlkit.reports.text import shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

COLUMNS = 3  # Panels in a row.
NUMBERED = 12  # Rounds of a panel that are all numbered.


@dataclass(frozen=True)
class Box:
    """Five numbers of a distribution of angles in degrees, and the round it is of."""

    round: int
    low: float
    q1: float
    median: float
    q3: float
    high: float


def draw_angles(
    panels: Sequence[tuple[str, Sequence[Box]]], title: str = ""
) -> "Figure":
    """Boxes by round, a panel a series, on the same axes.

    Rounds stand side by side, whatever lies between them: boxes have a width.
    """
    rounds = sorted({box.round for _, boxes in panels for box in boxes})
    columns = min(len(panels), COLUMNS)
    rows = -(-len(panels) // columns)
    width = np.clip(0.9 + 0.3 * len(rounds), 2.4, 11 / columns)
    with house_style():
        figure = new_figure(max(4.0, 0.4 + columns * width), 0.7 + 2.6 * rows)
        head(figure, title)
        grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(panels) :]:
            axes.remove()
        for number, (label, boxes) in enumerate(panels):
            axes = grid.flat[number]
            most = max(8, int(width * 11))
            axes.set_title(shorten(label, most))
            _draw_boxes(axes, rounds, boxes, COLOURS[number % len(COLOURS)])
            axes.tick_params(labelbottom=number + columns >= len(panels))
        _number_rounds(grid[0, 0], rounds)
        figure.supxlabel(_rounds_note(rounds), fontsize=9)
        figure.supylabel("angle (degrees)", fontsize=9)
    return figure


def _draw_boxes(
    axes: "Axes", rounds: list[int], boxes: Sequence[Box], colour: str
) -> None:
    at = {round_: place for place, round_ in enumerate(rounds)}
    here = {round_: [b for b in boxes if b.round == round_] for round_ in rounds}
    share = 0.75 / max(map(len, here.values()))
    places = [
        at[round_] + share * (k - (len(mine) - 1) / 2)
        for round_, mine in here.items()
        for k in range(len(mine))
    ]
    numbers = [_summary(box) for mine in here.values() for box in mine]
    lines = {"color": colour, "linewidth": 0.9}
    axes.bxp(
        numbers,
        positions=places,
        widths=0.85 * share,
        showfliers=False,
        patch_artist=True,
        manage_ticks=False,
        boxprops={"facecolor": tint(colour, 0.45), "linewidth": 0},
        medianprops={"color": "black", "linewidth": 1.2},
        whiskerprops=lines,
        capprops=lines,
    )
    span(axes, len(rounds) - 1)
    axes.set_ylim(bottom=0)
    rule(axes)


def _summary(box: Box) -> dict[str, Any]:
    return {
        "whislo": box.low, "q1": box.q1, "med": box.median, "q3": box.q3,
        "whishi": box.high,
    }  # fmt: skip


def _number_rounds(axes: "Axes", rounds: list[int]) -> None:
    """Number every round, or every so-manieth of many; panels share their ticks."""
    step = -(-len(rounds) // NUMBERED)
    # The last round is the one that counts, so it always has its number.
    places = range((len(rounds) - 1) % step, len(rounds), step)
    axes.set_xticks(places, [str(rounds[place]) for place in places])


def _rounds_note(rounds: list[int]) -> str:
    uneven = len(set(np.diff(rounds))) > 1
    scale = ", not to scale" if uneven else ""
    return (
        f"round{scale}\nbox: quartiles, line: median,\n"
        "whiskers: to the last within 1.5 box heights"
    )
