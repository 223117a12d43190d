"""plot sweep: scores over the values of an option."""

import math
from collections.abc import Sequence

from furlkit.errors import UsageError
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import Value, files_of, read_all
from furlkit.reports.results import Results
from furlkit.reports.summary import Line, grouped
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture


@picture
def run(
    series: Series,
    over: str,
    value: str,
    protocol: str,
    allow_different: tuple[str, ...],
    frame: Frame,
) -> Picture:
    """Draw a line for each LINE of labels LINE:NUMBER, a point for each NUMBER."""
    given = []
    for label, paths in series:
        line, _, number = label.rpartition(":")
        _number(label)
        files = files_of(paths, protocol, last=True)
        given.append(Results(line, number, (), (), files))
    found = read_all(given, value, None, allow_different=allow_different)
    lines = [
        _line(plain(label), points)
        for label, points in grouped(found, lambda each: each.group).items()
    ]
    protocols = dict.fromkeys(plain(each.protocol) for each in found)
    shown = Value(plain(value), tuple(protocols))
    text = "; ".join(_describe(line, shown, plain(over)) for line in lines)
    data = [{**line.to_json(), "x": line.x.tolist()} for line in lines]
    return (
        lambda: figure("lines:draw_sweep")(lines, shown, plain(over), frame),
        f"{shown.name} {text}",
        {"over": over, "value": value, "lines": data},
    )


def _number(label: str) -> float:
    text = label.rpartition(":")[2]
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UsageError(
            f"--series {label}: found {text!r}, expected the option's number: "
            "NUMBER=FILE,... or LINE:NUMBER=FILE,..."
        )
    return number


def _line(label: str, points: Sequence[Results]) -> Line:
    """Points of a line in the order of their numbers."""
    ordered = sorted(points, key=lambda each: _number(each.label))
    x = [_number(each.label) for each in ordered]
    for number in x:
        if x.count(number) > 1:
            raise UsageError(
                f"--series {label + ':' if label else ''}{number:g}: given twice; give "
                "all files of a number to a single --series"
            )
    return Line.of(label, x, [0] * len(x), [each.summary for each in ordered])


def _describe(line: Line, value: Value, over: str) -> str:
    each = ", ".join(
        f"{value.show(mean)} at {x:g}"
        for x, mean in zip(line.x, line.mean, strict=True)
    )
    whose = f"of {line.label} " if line.label else ""
    return f"{whose}by {over}: {each}"
