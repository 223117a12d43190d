"""Pictures of training losses through the rounds, and of what aggregation does to them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.reports.figures.scores import rule
from furlkit.reports.figures.style import (
    COLOURS,
    GREY,
    MARKERS,
    annotate_ends,
    head,
    house_style,
    legend,
    new_figure,
    whole_ticks,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DASHED = (0, (3, 1.5))
# Jumps of a line that have room for markers of the usual size.
FEW_JUMPS = 25


@dataclass(frozen=True)
class Loss:
    """A line: a point for each local epoch, counted through all rounds.

    `mean` is over clients, and over `runs` where there are several; `std` is that of
    the losses of all `clients`.
    """

    label: str
    rounds: np.ndarray
    epochs: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    clients: np.ndarray
    runs: np.ndarray

    @property
    def ends(self) -> np.ndarray:
        """The last point of each round but the last; a jump leads to the next point."""
        return np.flatnonzero(np.diff(self.rounds))

    @property
    def jumps(self) -> np.ndarray:
        """How far each aggregation lifted the loss."""
        return np.diff(self.mean)[self.ends]


def draw_loss(losses: Sequence[Loss], value: str, title: str = "") -> "Figure":
    """Losses over local epochs: dashed within a round, solid across an aggregation."""
    with house_style():
        figure = new_figure(6, 3.8)
        axes = figure.add_subplot()
        handles = [_draw_line(axes, number, loss) for number, loss in enumerate(losses)]
        axes.xaxis.set_major_locator(whole_ticks(10))
        rule(axes)
        axes.set_xlabel("local epochs, of all rounds together")
        axes.set_ylabel(value)
        head(figure, title)
        if any(loss.label for loss in losses):
            labels = [loss.label for loss in losses]
            legend(figure, handles, labels, below=bool(title))
        _explain(axes, losses)
        figure.draw_without_rendering()
        ends = [(loss.epochs[-1], loss.mean[-1]) for loss in losses]
        texts = [f"{mean:.4g}" for _, mean in ends]
        annotate_ends(axes, ends, texts, [_look(i)[0] for i in range(len(losses))])
    return figure


def _draw_line(axes: "Axes", number: int, loss: Loss) -> Any:
    """Rounds one by one, then jumps; gives what stands for the line in a legend."""
    colour, marker = _look(number)
    size = 4 if len(loss.ends) <= FEW_JUMPS else 2.5
    style: dict[str, Any] = {"color": colour, "linewidth": 1.5, "markersize": size}
    for here in np.split(np.arange(len(loss.rounds)), loss.ends + 1):
        # A round of one epoch has no length to be dashed.
        dots: dict[str, Any] = {"marker": marker} if len(here) == 1 else {}
        x, mean = loss.epochs[here], loss.mean[here]
        axes.plot(x, mean, linestyle=DASHED, **style, **dots)
        if (loss.clients[here] > 1).any():
            _draw_spread(axes, x, mean, loss.std[here], colour)
    for end in loss.ends:
        jump = slice(end, end + 2)
        axes.plot(loss.epochs[jump], loss.mean[jump], marker=marker, **style)
    return _key(color=colour, marker=marker) if len(loss.ends) else _key(color=colour)


def _look(number: int) -> tuple[str, str]:
    """A colour and a marker; dashes have a meaning here and tell no lines apart."""
    again, place = divmod(number, len(COLOURS))
    return COLOURS[place], MARKERS[(place + again) % len(MARKERS)]


def _draw_spread(
    axes: "Axes", x: np.ndarray, mean: np.ndarray, std: np.ndarray, colour: str
) -> None:
    """A band, or a bar where there is one point, of which a band shows nothing."""
    if len(x) == 1:
        axes.errorbar(x, mean, std, fmt="none", ecolor=colour, alpha=0.4)
    else:
        axes.fill_between(
            x, mean - std, mean + std, color=colour, alpha=0.2, linewidth=0
        )


def _key(**style: Any) -> Any:
    from matplotlib.lines import Line2D

    return Line2D([], [], linewidth=1.5, markersize=4, **style)


def _explain(axes: "Axes", losses: Sequence[Loss]) -> None:
    """What dashed, solid and band mean, once for all lines, as far as they are there."""
    from matplotlib.patches import Patch

    lasting = any(len(loss.rounds) > len(loss.ends) + 1 for loss in losses)
    mean = {"linestyle": DASHED} if lasting else {"linestyle": "", "marker": MARKERS[0]}
    keys = {"clients' mean": _key(color=GREY, **mean)}
    if any((loss.clients > 1).any() for loss in losses):
        keys["one standard deviation"] = Patch(color=GREY, alpha=0.2, linewidth=0)
    if any(len(loss.ends) for loss in losses):
        keys["aggregation"] = _key(color=GREY, marker=MARKERS[0])
    axes.legend(list(keys.values()), list(keys), fontsize=8, framealpha=0.7)
