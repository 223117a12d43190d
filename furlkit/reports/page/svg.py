"""Inline SVG from data: line charts with bands, heat maps and bars.

Colours are classes c0 to c6 of page.css. Charts carry the data in data-* attributes,
which page.js reads for hovering.
"""

import json
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from furlkit.reports.page.html import element, text

WIDTH, HEIGHT = 440, 250
LEFT, RIGHT, TOP, BOTTOM = 46, 14, 10, 34
COLOURS = 7
LEVELS = 8  # Shades of a heat map.


class Series(NamedTuple):
    """Values `y` over `x`; `bands` are pairs of lower and upper values around y."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    bands: tuple[tuple[Sequence[float], Sequence[float]], ...] = ()


class Axes(NamedTuple):
    """Ranges of the data in the frame of a chart; `ticks` are the marks of y."""

    left: float
    right: float
    ticks: Sequence[float]

    @property
    def low(self) -> float:
        """Lowest value of the frame."""
        return self.ticks[0]

    @property
    def high(self) -> float:
        """Highest value of the frame."""
        return self.ticks[-1]

    def x(self, value: float) -> float:
        """Horizontal place of a value."""
        share = (value - self.left) / (self.right - self.left)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        """Vertical place of a value."""
        share = (value - self.low) / (self.high - self.low)
        return HEIGHT - BOTTOM - share * (HEIGHT - TOP - BOTTOM)

    def points(self, xs: Iterable[float], ys: Iterable[float]) -> str:
        """Places of points, for a polyline."""
        pairs = zip(xs, ys, strict=True)
        return " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in pairs)


def line_chart(
    title: str, series: Sequence[Series], note: str = "", x_label: str = "round"
) -> str:
    """Return a figure with a line for each series; empty without a point.

    The place of a series in the list decides the colour, also if others have no point.
    """
    several = len(series) <= COLOURS  # Otherwise too many lines for colours.
    looks = [f"c{k}" if several else "many" for k in range(len(series))]
    drawn = [(each, look) for each, look in zip(series, looks, strict=True) if each.x]
    if not drawn:
        return ""
    axes = _axes([each for each, _ in drawn])
    body = _grid(axes, x_label) + "".join(_line(axes, *each) for each in drawn)
    svg = element(
        "svg", body, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=title
    )
    caption = text(title) + (element("small", text(note)) if note else "")
    legend = _legend(drawn) if several and len(series) > 1 else ""
    inside = f"{element('figcaption', caption)}{svg}{legend}"
    frame = [LEFT, WIDTH - RIGHT, axes.left, axes.right, WIDTH]
    return element("figure", inside, class_="chart", data_frame=json.dumps(frame))


def _axes(series: Sequence[Series]) -> Axes:
    xs = [x for each in series for x in each.x]
    ys = [y for each in series for y in each.y]
    ys += [y for each in series for pair in each.bands for side in pair for y in side]
    left, right = min(xs), max(xs)
    ticks = nice_ticks(min(ys), max(ys))
    return Axes(left, right if right > left else left + 1, ticks)


def nice_ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers that enclose a range: 1, 2 or 5 times a power of ten apart."""
    if high <= low:
        gap = abs(low) * 0.1
        low, high = low - gap, high + gap or 1.0
    size = 10 ** math.floor(math.log10((high - low) / most))
    steps = (size, 2 * size, 5 * size, 10 * size)
    step = next(s for s in steps if (high - low) / s <= most)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [k * step for k in range(first, last + 1)]


def _line(axes: Axes, series: Series, look: str) -> str:
    bands = "".join(
        element("polygon", "", points=f"{axes.points(series.x, low)} "
                f"{axes.points(reversed(series.x), reversed(high))}")
        for low, high in series.bands
    )  # fmt: skip
    points = axes.points(series.x, series.y)
    marks = ""
    if len(series.x) == 1:
        x, y = points.split(",")
        marks = element("circle", "", cx=x, cy=y, r=3.5)
    line = element("polyline", "", points=points)
    name = element("title", text(series.label))
    data = {"x": [*series.x], "y": [float(f"{y:.5g}") for y in series.y]}
    return element(
        "g", name + bands + line + marks, class_=f"series {look}",
        data_label=series.label, data_points=json.dumps(data, separators=(",", ":")),
    )  # fmt: skip


def _grid(axes: Axes, x_label: str) -> str:
    parts = []
    for y in axes.ticks:
        place = f"{axes.y(y):.1f}"
        parts.append(element("line", "", x1=LEFT, x2=WIDTH - RIGHT, y1=place, y2=place))
        parts.append(element("text", f"{y:g}", x=LEFT - 6, y=place, class_="y"))
    for x in _whole_ticks(axes.left, axes.right):
        place = f"{axes.x(x):.1f}"
        parts.append(
            element("text", f"{x:g}", x=place, y=HEIGHT - BOTTOM + 15, class_="x")
        )
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(
        element("text", text(x_label), x=f"{middle:g}", y=HEIGHT - 4, class_="x")
    )
    return element("g", "".join(parts), class_="grid")


def _whole_ticks(left: float, right: float) -> list[float]:
    ticks = nice_ticks(left, right, 8)
    return [x for x in ticks if left <= x <= right and x == int(x)]


def _legend(drawn: Sequence[tuple[Series, str]]) -> str:
    items = (
        element("li", text(each.label), class_=look, data_series=k)
        for k, (each, look) in enumerate(drawn)
    )
    return element("ul", "".join(items), class_="legend")


def heat_map(
    title: str, rows: Sequence[str], columns: Sequence[str], counts: Sequence[Sequence]
) -> str:
    """Return a figure of shaded cells, a row for each client; darker is more.

    Cells have a title up to 50 rows; above, one path draws the cells of a shade.
    """
    most = max((n for row in counts for n in row), default=0)
    if not rows or not columns or not most:
        return ""
    named = len(rows) <= 50
    width = min(34.0, (WIDTH - LEFT - RIGHT) / len(columns))
    height = min(22.0, 500 / len(rows)) if named else max(2.0, 300 / len(rows))
    cells = _named_cells if named else _shaded_paths
    body = cells(rows, columns, counts, most, (width, height))
    bottom = 16 + height * len(rows)
    body += _heat_labels(rows, columns, (width, height))
    wide = LEFT + RIGHT + width * len(columns)
    svg = element("svg", body, viewBox=f"0 0 {wide:g} {bottom + 4:g}", role="img",
                  aria_label=title, style=f"max-width:{wide * 1.4:.0f}px")  # fmt: skip
    caption = element("figcaption", text(title))
    return element("figure", caption + svg, class_="heat")


def _shade(count: float, most: float) -> int:
    return math.ceil(LEVELS * count / most)


def _named_cells(rows, columns, counts, most, size) -> str:
    width, height = size
    roomy = width >= 26 and height >= 14  # Room for numbers.
    numbers = (
        element("text", f"{n:g}", x=f"{LEFT + width * (j + 0.5):.1f}",
                y=f"{16 + height * (i + 0.5):.1f}", class_=f"t{_shade(n, most)}")
        for i, row in enumerate(counts if roomy else ())
        for j, n in enumerate(row) if n
    )  # fmt: skip
    cells = "".join(
        element("rect", element("title", f"{text(rows[i])}, {text(columns[j])}: {n:,g}"),
                x=f"{LEFT + width * j:.1f}", y=f"{16 + height * i:.1f}",
                width=f"{width:.1f}", height=f"{height:.1f}",
                class_=f"h{_shade(n, most)}")
        for i, row in enumerate(counts)
        for j, n in enumerate(row)
    )  # fmt: skip
    return cells + "".join(numbers)


def _shaded_paths(rows, columns, counts, most, size) -> str:
    width, height = size
    paths: dict[int, list[str]] = {}
    for i, row in enumerate(counts):
        for j, n in enumerate(row):
            place = f"M{LEFT + width * j:.1f} {16 + height * i:.1f}"
            cell = f"{place}h{width:.1f}v{height:.1f}h-{width:.1f}z"
            paths.setdefault(_shade(n, most), []).append(cell)
    return "".join(
        element("path", "", class_=f"h{shade}", d="".join(paths[shade]))
        for shade in sorted(paths)
    )


def _heat_labels(rows: Sequence[str], columns: Sequence[str], size) -> str:
    width, height = size
    every = next((k for k in (1, 2, 5, 10, 20, 50) if k * height >= 12), len(rows))
    down = (
        element("text", text(row[:9]), x=LEFT - 6, class_="y",
                y=f"{16 + height * (i + 0.5):.1f}")
        for i, row in enumerate(rows) if i % every == 0
    )  # fmt: skip
    step = max(1, math.ceil(14 / width))
    letters = max(1, int(step * width / 6))
    across = (
        element("text", text(name[:letters]), x=f"{LEFT + width * (j + 0.5):.1f}", y=11,
                class_="x")
        for j, name in enumerate(columns) if j % step == 0
    )  # fmt: skip
    return element("g", "".join([*down, *across]), class_="grid")


def bars(title: str, labels: Sequence[str], values: Sequence[float], unit: str) -> str:
    """Return a figure of horizontal bars; at most 50."""
    most = max(values, default=0)
    if not most or len(labels) > 50:
        return ""
    rows = []
    for k, (label, value) in enumerate(zip(labels, values, strict=True)):
        y = 4 + 20 * k
        width = (WIDTH - LEFT - 90) * value / most
        rows.append(element("text", text(label[:9]), x=LEFT - 6, y=y + 8, class_="y"))
        rows.append(element("rect", element("title", text(label)), x=LEFT, y=y,
                            width=f"{width:.1f}", height=14, class_="c0"))  # fmt: skip
        shown = f"{value:,.4g} {unit}"
        rows.append(element("text", text(shown), x=f"{LEFT + width + 5:.1f}", y=y + 8,
                            class_="v"))  # fmt: skip
    size = f"0 0 {WIDTH} {8 + 20 * len(labels)}"
    svg = element("svg", "".join(rows), viewBox=size, role="img", aria_label=title)
    return element("figure", element("figcaption", text(title)) + svg, class_="bars")
