"""Uploads of clients: norms and angles of the updates, and changes of the result."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

from furlkit.files.clients import ClientId, client_order
from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import COLOURS, NAMED
from furlkit.reports.summary import Upload

LABELS = {
    "norm": "norm of the update",
    "angle": "angle to the others (degrees)",
    "moved": "how far the result moved",
}
MARGIN = 0.15  # Above and below the dots, which a small panel would cut.
USUAL, ODD = COLOURS[0], COLOURS[1]


def draw_uploads(uploads: Sequence[Upload], frame: Frame = UNFRAMED) -> Figure:
    """Panel for each number, a column for each client, a dot for each round.

    Conspicuous uploads are larger, and have a separate colour.
    """
    names = [n for n in LABELS if any(getattr(u, n) is not None for u in uploads)]
    clients = sorted({each.client for each in uploads}, key=client_order)
    with style.canvas(6.5, 0.6 + 1.7 * len(names), frame) as figure:
        every = figure.subplots(len(names), sharex=True, squeeze=False).flatten()
        for axes, name in zip(every, names, strict=True):
            _draw(axes, uploads, clients, name)
        figure.align_ylabels()
        every[-1].set_xlabel("client")
        if len(clients) <= NAMED:
            every[-1].set_xticks(range(len(clients)), [str(c) for c in clients])
        every[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
        style.fit_labels(figure)
    return figure


def _draw(
    axes: Axes, uploads: Sequence[Upload], clients: Sequence[ClientId], name: str
) -> None:
    for odd, colour, size, label in (
        (False, USUAL, 14, "usual"),
        (True, ODD, 30, "stands out"),
    ):
        some = [u for u in uploads if u.stands_out == odd]
        known = [u for u in some if getattr(u, name) is not None]
        places = [clients.index(each.client) for each in known]
        values = [getattr(each, name) for each in known]
        marker = "D" if odd else "o"
        axes.scatter(places, values, size, colour, marker=marker, label=label)
    axes.margins(y=MARGIN)
    axes.set_ylabel(LABELS[name])
    axes.grid(axis="y")
    if name == "angle":
        axes.axhline(90, color=style.GREY, linestyle="--", linewidth=1)
    values = [getattr(each, name) or 0 for each in uploads]
    axes.yaxis.set_major_locator(MaxNLocator(4))
    # A narrow range has too few round numbers for a logarithmic scale.
    if name != "angle" and max(values) > 10 * min(values) > 0:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_major_formatter("{x:g}")  # Formulas are off in house style.
        axes.yaxis.set_minor_formatter(NullFormatter())
