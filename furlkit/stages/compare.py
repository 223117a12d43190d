"""compare: scores of several seeds side by side, as a table."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from furlkit.errors import UsageError
from furlkit.reports.metrics import is_share
from furlkit.reports.series import (
    Comparison,
    Results,
    Series,
    check_series,
    compared,
    read_results,
)
from furlkit.reports.text import plain


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
    check_series(options.series, options.reference)
    labels = [series.label for series in options.series]
    for label, _ in options.published:
        if label not in labels:
            raise UsageError(
                f"--published {label}: is no label; there are {', '.join(labels)}"
            )
    results = [read_results(series, options.value) for series in options.series]
    against = [compared(each, results, options.reference) for each in results]
    published = dict(options.published)
    rows = [
        _row(each, held, published.get(each.series.label))
        for each, held in zip(results, against, strict=True)
    ]
    data = {"value": options.value, "reference": options.reference, "rows": rows}
    return _table(rows, options), data


def _row(
    results: Results, held: Comparison | None, published: float | None
) -> dict[str, Any]:
    row: dict[str, Any] = {
        "label": results.series.label,
        "n": len(results.values),
        "mean": results.mean,
        "std": results.std,
        "values": list(results.values),
        "published": published,
    }
    if held:
        found = held.difference
        row["difference"] = {
            "mean": found.mean, "low": found.low, "high": found.high, "n": found.n,
            "paired_by": held.by,
        }  # fmt: skip
    return row


def _table(rows: Sequence[dict[str, Any]], options: Options) -> str:
    """Columns that stand under each other; those that are empty are left out."""
    scale, digits = (100, 2) if is_share(options.value) else (1, 4)

    def shown(value: float | None, sign: str = "", by: float = scale) -> str:
        return "" if value is None else f"{by * value:{sign}.{digits}f}"

    def difference(row: dict[str, Any]) -> str:
        found = row.get("difference")
        if found is None:
            return ""
        words = shown(found["mean"], "+")
        if found["low"] is not None:
            low, high = shown(found["low"], "+"), shown(found["high"], "+")
            words += f" ({low} to {high})"
        return words

    unit = f"{options.value}, %" if scale == 100 else options.value
    against = f"against {plain(options.reference or '')}, 95 %"
    columns = {
        "": [plain(row["label"]) for row in rows],
        "n": [str(row["n"]) for row in rows],
        unit: [shown(row["mean"]) for row in rows],
        "std": [shown(row["std"]) for row in rows],
        "published": [shown(row["published"], by=1) for row in rows],
        against: [difference(row) for row in rows],
    }
    return "\n".join(_lines({k: v for k, v in columns.items() if any(v)}))


def _lines(columns: dict[str, list[str]]) -> list[str]:
    widths = {name: max(map(len, (name, *cells))) for name, cells in columns.items()}
    count = len(next(iter(columns.values())))
    lines = [{name: name for name in columns}]
    lines += [{name: cells[i] for name, cells in columns.items()} for i in range(count)]

    def joined(line: dict[str, str]) -> str:
        first, *rest = columns
        cells = [line[first].ljust(widths[first])]
        return "  ".join([*cells, *(line[n].rjust(widths[n]) for n in rest)]).rstrip()

    return [joined(line) for line in lines]
