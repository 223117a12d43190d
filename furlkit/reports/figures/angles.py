"""Box plots of angles between representations, by round."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.summary import Box
from furlkit.reports.text import shorten

NUMBERED = 12  # Largest number of rounds with all ticks.


def draw_angles(
    panels: Sequence[tuple[str, Sequence[Box]]], frame: Frame = UNFRAMED
) -> Figure:
    """Boxes by round, one panel per series, with common axes.

    Rounds are equally spaced, since boxes have a width.
    """
    rounds = sorted({box.round for _, boxes in panels for box in boxes})
    rows, columns = style.shape_of(len(panels))
    width = float(np.clip(0.9 + 0.3 * len(rounds), 2.4, 11 / columns))
    size = max(4.0, 0.4 + columns * width), 0.7 + 2.6 * rows
    with style.canvas(*size, frame) as figure:
        width = figure.get_figwidth() / columns
        grid = style.panels_of(figure, len(panels), sharex=True, sharey=True)
        for number, (axes, (label, boxes)) in enumerate(zip(grid, panels, strict=True)):
            axes.set_title(shorten(label, max(8, int(width * 11))))
            _draw_boxes(axes, rounds, boxes, style.COLOURS[number % len(style.COLOURS)])
            axes.tick_params(labelbottom=number + columns >= len(panels))
        grid[0].set_ylim(bottom=0)  # After all boxes: a fixed limit ends the scaling.
        # Of many rounds every n-th has a tick, counted back from the last.
        step = -(-len(rounds) // NUMBERED)
        places = range((len(rounds) - 1) % step, len(rounds), step)
        grid[0].set_xticks(places, [str(rounds[place]) for place in places])
        scale = ", not to scale" if len(set(np.diff(rounds))) > 1 else ""
        note = "box: quartiles, line: median,\nwhiskers: up to 1.5 box heights"
        figure.supxlabel(f"round{scale}\n{note}")
        figure.supylabel("angle (degrees)")
    return figure


def _draw_boxes(
    axes: Axes, rounds: list[int], boxes: Sequence[Box], colour: str
) -> None:
    """Place the boxes of one round side by side."""
    numbers, places = [], []
    share = 0.75 / max(sum(b.round == box.round for b in boxes) for box in boxes)
    for slot, round_ in enumerate(rounds):
        here = [box for box in boxes if box.round == round_]
        places += [slot + share * (k - (len(here) - 1) / 2) for k in range(len(here))]
        numbers += [
            {"whislo": b.low, "q1": b.q1, "med": b.median, "q3": b.q3, "whishi": b.high}
            for b in here
        ]
    line = {"color": colour, "linewidth": 0.9}
    axes.bxp(
        numbers, positions=places, widths=0.85 * share, showfliers=False,
        patch_artist=True, manage_ticks=False, whiskerprops=line, capprops=line,
        boxprops={"facecolor": style.tint(colour, 0.45), "linewidth": 0},
        medianprops={"color": "black", "linewidth": 1.2},
    )  # fmt: skip
    style.slots(axes, len(rounds) - 1)
    axes.grid(axis="y")
