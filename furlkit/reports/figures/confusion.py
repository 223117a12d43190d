"""Confusion matrices as heat maps."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from furlkit.reports.figures import Frame, style

WRITTEN = 15  # Shares are written into the cells of a map up to this large.
Names = Sequence[str]


def draw_confusion(
    matrix: np.ndarray, names: Names, columns: Names, label: str, frame: Frame
) -> Figure:
    """Images by class (rows) and by prediction, in percent of the row."""
    total = matrix.sum(axis=1, keepdims=True)
    shares = 100 * matrix / np.where(total > 0, total, 1)
    rows, wide = matrix.shape
    width = float(np.clip(2.6 + 0.46 * wide, 4, 10))
    height = float(np.clip(1.4 + 0.36 * rows, 2.6, 8.5))
    with style.canvas(width, height, frame) as figure:
        axes = figure.add_subplot()
        image = axes.imshow(shares, "Blues", aspect="auto", vmin=0, vmax=100)
        axes.spines[:].set(visible=True, color="#CCCCCC")
        style.name_ticks(axes.yaxis, np.arange(rows), names, "class")
        style.name_ticks(axes.xaxis, np.arange(wide), columns, label)
        if wide > rows:  # What belongs to no class stands apart.
            axes.axvline(rows - 0.5, color=style.GREY, linewidth=1)
        if max(rows, wide) <= WRITTEN:
            for (row, column), share in np.ndenumerate(shares):
                colour = "white" if share > 55 else "black"
                text = f"{share:.0f}" if share >= 0.5 else ""
                axes.text(column, row, text, ha="center", va="center", color=colour)
        figure.colorbar(image, label="percent of the class", fraction=0.05, pad=0.02)
        style.fit_labels(figure)
        style.fit_numbers(axes, wide)
    return figure
