"""compare: scores of several seeds side by side, as a table."""

from dataclasses import dataclass
from typing import Any

from furlkit.errors import UsageError
from furlkit.reports.metrics import is_share
from furlkit.reports.series import Comparison, Results, Series, read_all
from furlkit.reports.text import columns, plain


@dataclass(frozen=True)
class Options:
    """`published` are values of papers by label, in the unit that is shown."""

    series: tuple[Series, ...]
    value: str = "accuracy"
    reference: str | None = None
    published: tuple[tuple[str, float], ...] = ()


def run_values(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Compare with flat options; `published` are LABEL=NUMBER, `lowest` labels."""
    given = dict(values)
    lowest = given.pop("lowest")
    for label in sorted(set(lowest) - {label for label, _ in given["series"]}):
        raise UsageError(f"--lowest {label}: is no label of a --series")
    series = tuple(
        Series("", label, paths)._replace(lowest=label in lowest)
        for label, paths in given["series"]
    )
    published = tuple(map(_published, given["published"]))
    return run(Options(**{**given, "series": series, "published": published}))


def _published(text: str) -> tuple[str, float]:
    label, _, number = text.rpartition("=")
    try:
        return label, float(number)
    except ValueError as error:
        raise UsageError(f"--published {text}: expected LABEL=NUMBER") from error


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Mean and deviation of each series, the paper's number, the paired difference."""
    labels = [series.label for series in options.series]
    for label, _ in options.published:
        if label not in labels:
            raise UsageError(
                f"--published {label}: there is no such label, only {', '.join(labels)}"
            )
    found = read_all(options.series, options.value, options.reference)
    rows = [_row(*each, dict(options.published)) for each in found]
    data = {"value": options.value, "reference": options.reference, "rows": rows}
    return _table(rows, options), data


def _row(
    results: Results, comparison: Comparison | None, published: dict[str, float]
) -> dict[str, Any]:
    label = results.series.label
    row = {
        "label": label,
        **results.summary._asdict(),
        "values": list(results.values),
        "published": published.get(label),
    }
    return {**row, "difference": comparison.to_json()} if comparison else row


def _table(rows: list[dict[str, Any]], options: Options) -> str:
    """Columns without any number are left out."""
    scale, digits = (100, 2) if is_share(options.value) else (1, 4)

    def shown(value: float | None, sign: str = "", by: float = scale) -> str:
        return "" if value is None else f"{by * value:{sign}.{digits}f}"

    def difference(mean=None, low=None, high=None, **_: Any) -> str:
        interval = f" ({shown(low, '+')} to {shown(high, '+')})"
        return shown(mean, "+") + ("" if low is None else interval)

    unit = f"{options.value}, %" if scale == 100 else options.value
    against = f"against {plain(options.reference or '')}, 95 %"
    table = [("", "n", unit, "std", "published", against)]
    for row in rows:
        numbers = shown(row["mean"]), shown(row["std"]), shown(row["published"], by=1)
        last = difference(**row.get("difference", {}))
        table.append((plain(row["label"]), str(row["n"]), *numbers, last))
    filled = [cells for cells in zip(*table, strict=True) if any(cells[1:])]
    return "\n".join(columns(list(zip(*filled, strict=True)), ".rrrrr"))
