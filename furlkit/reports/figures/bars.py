"""Bar charts: means over seeds side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from furlkit.reports.figures import UNFRAMED, Frame, style
from furlkit.reports.figures.style import COLOURS, GREY
from furlkit.reports.metrics import Value
from furlkit.reports.results import Results
from furlkit.reports.text import shorten

HATCHES = ("", "///", "...", "xxx")
LABEL_WIDTH = 36
BETWEEN_GROUPS = 0.7  # In widths of a bar.
Bars = Sequence[Results]


def draw_bars(
    bars: Bars, value: Value, start: float = 0, frame: Frame = UNFRAMED
) -> Figure:
    """Bar for each mean with one standard deviation up and down, a dot per seed.

    A label has one colour in all groups. An axis with a `start` above 0 is marked. Text
    above a bar is the difference from the group's reference, which is a dashed line.
    """
    labels = list(dict.fromkeys(bar.label for bar in bars))
    groups = list(dict.fromkeys(bar.group for bar in bars))
    # Groups follow each other with a gap between them.
    group = np.array([groups.index(bar.group) for bar in bars])
    places = np.argsort(np.argsort(group, kind="stable")) + BETWEEN_GROUPS * group
    width = float(np.clip(1.3 + 0.55 * (places.max() + 1), 4, 12))
    with style.canvas(width, 3.8, frame) as figure:
        width = figure.get_figwidth()
        axes = figure.add_subplot()
        narrow = (width - 1) / (places.max() + 1) < 0.36  # Inches for a bar's number.
        handles: dict[str, Any] = {}
        for place, bar in zip(places, bars, strict=True):
            drawn = _draw_bar(axes, place, bar, labels.index(bar.label), value)
            handles.setdefault(bar.label, drawn)
        _draw_numbers(axes, places, bars, value, narrow)
        _draw_references(axes, places, bars, value)
        _set_y_axis(axes, bars, value, start)
        style.slots(axes, places.max())
        axes.tick_params(axis="x", length=0)
        note = _notes(bars, narrow)
        if len(groups) > 1:
            middles = [places[group == k].mean() for k in range(len(groups))]
            _name_slots(axes, middles, groups, width)
            short = [shorten(label, LABEL_WIDTH) for label in handles]
            style.legend(figure, list(handles.values()), short, lower=True)
        else:
            _name_slots(axes, places, [bar.label for bar in bars], width)
            note.insert(0, shorten(groups[0], LABEL_WIDTH))
        axes.set_xlabel("\n".join(note).lstrip())
        style.fit_labels(figure)
    return figure


def _set_y_axis(axes: Axes, bars: Bars, value: Value, start: float) -> None:
    axes.grid(axis="y")
    if min(bar.extent[0] for bar in bars) < 0:
        axes.use_sticky_edges = False
        axes.axhline(0, color="black", linewidth=0.8)
    elif start:
        axes.set_ylim(bottom=start)
    cut = f"\naxis starts at {start:g}, not at 0" if start else ""
    axes.set_ylabel(value.label + cut)


def _notes(bars: Bars, narrow: bool) -> list[str]:
    """Lines below the picture that explain dots, error bars and the reference."""
    counts = (len(bar.values) for bar in bars)
    notes = style.note(counts, "results (dots)", "error bar")
    if any(bar.difference for bar in bars):
        with_interval = "" if narrow else ", ±: its 95% interval"
        notes.append(f"dashed: reference; +: difference from it{with_interval}")
    return notes


def _draw_numbers(
    axes: Axes, places: np.ndarray, bars: Bars, value: Value, narrow: bool
) -> None:
    """Numbers above the bars, and a margin for the numbers."""
    above: dict[str, Any] = {"textcoords": "offset points", "ha": "center"}
    above |= {"fontsize": 8, "rotation": 90 if narrow else 0}
    compared = any(bar.difference for bar in bars)
    if compared:  # The line of the reference is not to strike out numbers.
        white = {"facecolor": "white", "linewidth": 0, "pad": 0.3}
        above |= {"linespacing": 1.0, "bbox": white, "zorder": 4}
    for place, bar in zip(places, bars, strict=True):
        top = place, value.scale * max(0, bar.extent[1])
        axes.annotate(_numbers(bar, value, narrow), top, (0, 3), **above)
    axes.margins(y=0.4 if compared else 0.14)


def _numbers(bar: Results, value: Value, narrow: bool) -> str:
    """Mean of a bar, and the difference from the reference, if any."""
    mean = value.show(bar.summary.mean, ".1f")
    if bar.difference is None:
        return mean
    effect = bar.difference.effect
    text = value.show(effect.estimate, "+.1f")
    if narrow:  # Side by side, without room for the interval.
        return f"{mean} ({text})"
    if effect.low is not None and effect.high is not None:
        half = value.show((effect.high - effect.low) / 2, ".1f")
        text += f"\n±{half}"
    return f"{text}\n{mean}"


def _draw_references(axes: Axes, places: np.ndarray, bars: Bars, value: Value) -> None:
    """Dashed line at the mean of each group's reference, across the group."""
    for group in dict.fromkeys(bar.group for bar in bars):
        mine = [k for k, bar in enumerate(bars) if bar.group == group]
        (reference, *others) = sorted(mine, key=lambda k: bool(bars[k].difference))
        if others and bars[others[0]].difference:
            ends = places[mine].min() - 0.5, places[mine].max() + 0.5
            height = value.scale * bars[reference].summary.mean
            axes.hlines(height, *ends, color=GREY, linestyle="--", linewidth=0.9)


def _draw_bar(axes: Axes, place: float, bar: Results, number: int, value: Value) -> Any:
    again, colour = divmod(number, len(COLOURS))
    (mean, std, n), scale = bar.summary, value.scale
    drawn = axes.bar(
        place, scale * mean, 0.85, color=style.tint(COLOURS[colour], 0.75),
        hatch=HATCHES[again % len(HATCHES)], edgecolor="white", linewidth=0,
        yerr=None if std is None else scale * std, capsize=3
    )  # fmt: skip
    if n > 1:
        beside = place + 0.25 * np.linspace(-1, 1, n)
        dots: dict[str, Any] = {"color": "white", "edgecolor": "black", "zorder": 3}
        axes.scatter(beside, scale * np.sort(bar.values), s=9, linewidth=0.6, **dots)
    return drawn


def _name_slots(axes: Axes, places: Any, names: Sequence[str], width: float) -> None:
    """Names below the bars, slanted if they are too long for horizontal text."""
    short = [shorten(name, LABEL_WIDTH) for name in names]
    low, high = axes.get_xlim()
    apart = min(np.diff(np.sort(places)), default=4) * (width - 1) / (high - low)
    slanted = style.slanted(30) if 0.08 * max(map(len, short)) > apart else {}
    axes.set_xticks(places, short, **slanted)
