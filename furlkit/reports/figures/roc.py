"""Curves of attacks: members found over false alarms, on logarithmic axes."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullLocator

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import GREY
from furlkit.reports.summary import Curve

LOWEST = 1e-4  # Start of the axes, if no curve has a lower share.


def draw_roc(curves: Sequence[Curve], frame: Frame = UNFRAMED) -> Figure:
    """Steps of each curve; the dashed line is a guess, the vertical line 1 % FPR."""
    low = _lowest(curves)
    with style.canvas(4.4, 4.0, frame) as figure:
        axes = figure.add_subplot(xscale="log", yscale="log")
        handles = []
        for number, curve in enumerate(curves):
            looks = {**style.look(number), "marker": ""}
            # A point at 0 is drawn at the start of the axis.
            fpr, tpr = np.maximum(curve.points, low).T
            handles += axes.plot(fpr, tpr, drawstyle="steps-post", **looks)
        axes.plot(
            [low, 1], [low, 1], linestyle=(0, (3, 1.5)), color=GREY, linewidth=0.9
        )
        axes.axvline(0.01, color=GREY, linewidth=0.6)
        axes.set(xlim=(low, 1), ylim=(low, 1.05))
        for axis in (axes.xaxis, axes.yaxis):
            axis.set(
                major_locator=LogLocator(), minor_locator=NullLocator(),
                major_formatter=FormatStrFormatter("%g"),
            )  # fmt: skip
        axes.set_xlabel("false positive rate (log scale)")
        axes.set_ylabel("true positive rate (log scale)")
        axes.grid()
        labels = [f"{curve.label} (AUC {curve.auc:.3f})" for curve in curves]
        style.legend(figure, handles, labels, lower=bool(frame.title))
        style.fit_labels(figure)
    return figure


def _lowest(curves: Sequence[Curve]) -> float:
    """Smallest positive share of all curves, rounded down to a power of ten."""
    shares = np.concatenate([curve.points.ravel() for curve in curves])
    least = max(float(shares[shares > 0].min()), LOWEST)
    return float(10 ** np.floor(np.log10(least) + 1e-9))
