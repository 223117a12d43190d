"""Images in rows: a row for each cluster, or images and their edges."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from furlkit.reports.figures import Frame, style
from furlkit.reports.figures.style import COLOURS, GREY
from furlkit.reports.summary import ImageRow
from furlkit.reports.text import shorten

SIDE = 0.92  # Of a cell that is 1 wide.
WRONG = COLOURS[1]


def draw_mosaic(rows: Sequence[ImageRow], frame: Frame, named: str = "class") -> Figure:
    """Images of each row side by side, with a frame around images of another class.

    `named` is the meaning of the row names.
    """
    columns = max(len(row.images) for row in rows)
    cell = min(0.5, 8 / columns, 9 / len(rows))
    size = columns * cell + 2.9, len(rows) * cell + 0.6
    with style.canvas(*size, frame) as figure:
        axes = figure.add_subplot(aspect="equal")
        for place, row in enumerate(rows):
            for column, image in enumerate(row.images):
                _draw_image(axes, image, column, place, row.wrong[column])
        axes.set(xlim=(-0.1, columns), ylim=(len(rows), -0.1), xticks=[])
        axes.spines[:].set_visible(False)
        axes.tick_params(length=0)
        middle = np.arange(len(rows)) + SIDE / 2
        axes.set_yticks(middle, [shorten(row.name, 18) for row in rows])
        axes.set_ylabel(named)
        for place, row in zip(middle, rows, strict=True):
            axes.text(columns + 0.1, place, row.note, va="center", color=GREY)
        if any(any(row.wrong) for row in rows):
            frames = [Rectangle((0, 0), 1, 1, fill=False, edgecolor=WRONG)]
            style.legend(figure, frames, ["of another class"], lower=True)
    return figure


def _draw_image(
    axes: Axes, image: np.ndarray, column: int, place: int, wrong: bool
) -> None:
    extent = (column, column + SIDE, place + SIDE, place)
    grey = image.shape[2] == 1
    shown = image[..., 0] if grey else image
    axes.imshow(shown, "gray", vmin=0, vmax=255, extent=extent, interpolation="none")
    if wrong:
        corner = column, place
        axes.add_patch(
            Rectangle(corner, SIDE, SIDE, fill=False, edgecolor=WRONG, linewidth=1.6)
        )
