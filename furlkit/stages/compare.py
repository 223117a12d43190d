"""compare: scores of several seeds side by side, as a table."""

from collections.abc import Iterator
from typing import Any

from furlkit.errors import UsageError
from furlkit.reports.metrics import Value, files_of, read_all
from furlkit.reports.summary import Results
from furlkit.reports.table import check_format, render
from furlkit.reports.text import plain


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Mean and deviation of each series, the paper's number, the paired difference.

    `published` are values of papers, LABEL=NUMBER in the unit that is shown; `lowest`
    are labels with several files per seed, such as clients, of which the lowest counts.
    """
    value, reference, lowest = values["value"], values["reference"], values["lowest"]
    check_format(values["format"])
    given = [
        Results("", label, (), (), files_of(paths, values["protocol"], last=True))
        for label, paths in values["series"]
    ]
    labels = [each.label for each in given]
    for label in sorted(set(lowest) - set(labels)):
        raise UsageError(f"--lowest {label}: is no label of a --series")
    published = dict(_published(values["published"], labels))
    rows = [
        {**each.to_json(), "published": published.get(each.label)}
        for each in read_all(given, value, reference, lowest)
    ]
    data = {"value": value, "reference": reference, "rows": rows}
    if values["format"] == "csv":
        return render(_numbers(rows, value), "csv"), data
    table = _table(rows, value, reference, values["format"] != "text")
    return render(table, values["format"], ".rrrrr"), data


def _published(
    given: tuple[str, ...], labels: list[str]
) -> Iterator[tuple[str, float]]:
    for text in given:
        label, _, number = text.rpartition("=")
        try:
            yield label, float(number)
        except ValueError as error:
            raise UsageError(f"--published {text}: expected LABEL=NUMBER") from error
        if label not in labels:
            raise UsageError(
                f"--published {label}: there is no such label, only {', '.join(labels)}"
            )


def _numbers(rows: list[dict[str, Any]], value: str) -> list[tuple]:
    """The rows for programs, all numbers in the unit of the metrics files."""
    own, against = ("label", "n", "mean", "std"), ("mean", "low", "high", "paired_by")
    table = [("value", *own, "published", "difference", *against[1:])]
    for row in rows:
        published = row["published"] and row["published"] / Value(value).scale
        difference = map(row.get("difference", {}).get, against)
        table.append((value, *map(row.get, own), published, *difference))
    return table


def _table(
    rows: list[dict[str, Any]], value: str, reference: str | None, paper: bool
) -> list[tuple[str, ...]]:
    """The rows for people; a paper has mean and deviation in one cell.

    Columns without any number are left out.
    """
    scale = Value(value).scale
    form = ".2f" if scale == 100 else ",.0f" if value.endswith("bytes") else ".4f"

    def shown(x: float | None, sign: str = "", by: float = scale) -> str:
        return "" if x is None else f"{by * x:{sign}{form}}"

    def difference(mean=None, low=None, high=None, **_: Any) -> str:
        interval = f" ({shown(low, '+')} to {shown(high, '+')})"
        return shown(mean, "+") + ("" if low is None else interval)

    unit = f"{value}, %" if scale == 100 else value
    against = f"against {plain(reference or '')}, 95 %"
    table = [("", "n", plain(unit), "std", "published", against)]
    for row in rows:
        mean, std = shown(row["mean"]), shown(row["std"])
        if paper and std:
            mean, std = f"{mean} ± {std}", ""
        last = shown(row["published"], by=1), difference(**row.get("difference", {}))
        table.append((plain(row["label"]), str(row["n"]), mean, std, *last))
    filled = [cells for cells in zip(*table, strict=True) if any(cells[1:])]
    return list(zip(*filled, strict=True))
