"""Decisions of clients at the start of their rounds: a map of shares, and distances."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import GREY
from furlkit.reports.summary import Choices

NAMED = 30  # Every client is named up to here.
FAR = 3  # A threshold above FAR times all distances is not drawn to scale.


def draw_updates(
    clients: Sequence[Choices], mu: float | None, frame: Frame = UNFRAMED
) -> Figure:
    """A row of the map and a line below for each client, with the name in colour.

    White marks rounds without the client.
    """
    measured = any(gap is not None for each in clients for gap in each.distances)
    height = float(np.clip(0.22 * len(clients), 0.8, 4))
    rows = [height, 2.2] if measured else [height]
    with style.canvas(6.5, sum(rows) + 0.9, frame) as figure:
        grid: dict[str, Any] = {"height_ratios": rows, "squeeze": False}
        every = figure.subplots(len(rows), sharex=True, **grid).flatten()
        _draw_shares(figure, every[0], clients)
        if measured:
            _draw_distances(every[1], clients, mu)
        figure.align_ylabels()
        every[-1].set_xlabel("round")
        every[-1].xaxis.set_major_locator(style.whole_ticks(10))
        style.fit_labels(figure)
    return figure


def _draw_shares(figure: Figure, axes: Axes, clients: Sequence[Choices]) -> None:
    last = max(max(each.rounds) for each in clients)
    shares = np.full((len(clients), last), np.nan)
    for row, each in enumerate(clients):
        shares[row, np.array(each.rounds) - 1] = each.own
    blues = ListedColormap(colormaps["Blues"](np.linspace(0.12, 0.9, 256)))
    place = (0.5, last + 0.5, len(clients) - 0.5, -0.5)
    image = axes.imshow(
        shares, blues.with_extremes(bad="white"), vmin=0, vmax=1, extent=place,
        aspect="auto", interpolation="none",
    )  # fmt: skip
    axes.spines[:].set(visible=True, color="#CCCCCC")
    axes.tick_params(length=0)
    axes.set_ylabel("client")
    if len(clients) <= NAMED:
        axes.set_yticks(range(len(clients)), [str(each.client) for each in clients])
        for row, text in enumerate(axes.get_yticklabels()):
            text.set(color=style.look(row)["color"], fontweight="bold")
    bar = figure.colorbar(image, ax=axes, fraction=0.05, pad=0.02)
    bar.set_ticks([0, 0.5, 1], labels=["0 took", "0.5", "1 kept"])
    bar.set_label("share of its own")


def _draw_distances(axes: Axes, clients: Sequence[Choices], mu: float | None) -> None:
    most = 0.0
    for row, each in enumerate(clients):
        pairs = zip(each.rounds, each.distances, strict=True)
        known = [(round_, gap) for round_, gap in pairs if gap is not None]
        looks = {**style.look(row), "markersize": 3, "linewidth": 1}
        if known:
            axes.plot(*zip(*known, strict=True), **looks)
            most = max(most, *(gap for _, gap in known))
    axes.set_ylabel("distance")
    # A text about a distant threshold is above the lines.
    far = mu is not None and mu > FAR * most
    highest = most if far or mu is None else max(most, mu)
    axes.set_ylim(0, (1.25 if far else 1.08) * highest or 1)
    axes.grid(axis="y")
    if mu is not None:
        _draw_threshold(axes, mu, most)


def _draw_threshold(axes: Axes, mu: float, most: float) -> None:
    """Line at mu, or text if mu is far above all distances.

    The text is at the left: in the first round no client has a distance.
    """
    words: dict[str, Any] = {"color": GREY, "textcoords": "offset points"}
    if mu <= FAR * most:
        axes.axhline(mu, color=GREY, linestyle="--", linewidth=1)
        place = ("axes fraction", "data")
        axes.annotate(f"mu = {mu:g}", (0, mu), (4, 2), place, va="bottom", **words)
    else:
        text = f"mu = {mu:g} is far above"
        axes.annotate(text, (0, 1), (4, -2), "axes fraction", va="top", **words)
