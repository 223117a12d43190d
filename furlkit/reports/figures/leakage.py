"""Scores over the success of attacks: a line for each kind of shared file."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import GREY
from furlkit.reports.metrics import Value
from furlkit.reports.summary import Measure, Summary

ROOM = 0.03  # Room beside chance and beside certainty, in units of AUC.


def draw_leakage(
    lines: Mapping[str, Sequence[Measure]], value: Value, frame: Frame = UNFRAMED
) -> Figure:
    """Scores over AUC, with a cross of one standard deviation for each point."""
    with style.canvas(5, 3.8, frame) as figure:
        axes, handles = figure.add_subplot(), []
        for number, points in enumerate(lines.values()):
            looks = style.look(number)
            x, dx = _ends([point.x for point in points])
            y, dy = value.scale * _ends([point.y for point in points])
            handles += axes.plot(x, y, **looks, markersize=4)
            axes.errorbar(
                x, y, dy, dx, fmt="none", ecolor=looks["color"], alpha=0.4, linewidth=1
            )
            for point, place in zip(points, zip(x, y, strict=True), strict=True):
                axes.annotate(
                    point.label, place, (4, 4), textcoords="offset points",
                    color=looks["color"], fontsize=8,
                )  # fmt: skip
        axes.axvline(0.5, linestyle=(0, (3, 1.5)), color=GREY, linewidth=0.9)
        low, high = axes.get_xlim()
        axes.set_xlim(min(low, 0.5 - ROOM), max(high, 1 + ROOM))
        runs = [count for p in lines.values() for m in p for count in (m.x.n, m.y.n)]
        note = "; ".join(style.note(runs, "runs", "cross"))
        label = "AUC of the attack (dashed: a guess)"
        axes.set_xlabel("\n".join(filter(None, (label, note))))
        axes.set_ylabel(value.label)
        axes.grid()
        if any(lines):
            style.legend(figure, handles, list(lines), lower=bool(frame.title))
        style.fit_labels(figure)
    return figure


def _ends(summaries: Sequence[Summary]) -> np.ndarray:
    """Means and standard deviations (2, n); 0 for single values."""
    return np.array([[s.mean for s in summaries], [s.std or 0 for s in summaries]])
