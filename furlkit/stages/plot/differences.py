"""plot differences: effects and intervals against a reference, as a forest plot."""

from furlkit.errors import UsageError
from furlkit.reports.figures import Frame
from furlkit.reports.metrics import Value, check_lowest, read_series
from furlkit.reports.results import Results
from furlkit.reports.text import plain
from furlkit.stages.plot.picture import Picture, Series, figure, picture


@picture
def run(
    series: Series,
    value: str,
    protocol: str,
    reference: str,
    interval: str,
    lowest: tuple[str, ...],
    allow_different: tuple[str, ...],
    numbers: bool,
    frame: Frame,
) -> Picture:
    """Draw a row for each series but the reference: the paired difference."""
    check_lowest(lowest, [label for label, _ in series])
    given = series, protocol, value, reference, lowest, interval
    found = read_series(*given, allow_different)
    rows = [each._replace(label=plain(each.label)) for each in found if each.difference]
    if not rows:
        raise UsageError(
            f"--reference {reference}: is the only --series; give another to compare"
        )
    protocols = dict.fromkeys(plain(each.protocol) for each in found)
    shown, name = Value(plain(value), tuple(protocols)), plain(reference)
    effects = "; ".join(_describe(row, shown) for row in rows)
    return (
        lambda: figure("forest:draw_forest")(rows, shown, name, numbers, frame),
        f"{shown.name} against {name}: {effects}",
        {"value": value, "reference": reference, "rows": [r.to_json() for r in rows]},
    )


def _describe(row: Results, value: Value) -> str:
    if row.difference is None:
        return row.label
    effect = row.difference.text(lambda number: value.show(number, "+.2f"))
    return f"{row.label} {effect}" + (f", {n}" if (n := row.difference.note) else "")
