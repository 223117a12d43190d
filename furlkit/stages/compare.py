"""compare: scores of several seeds side by side, or verdicts on claims."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import FurlkitError, UsageError
from furlkit.files import receipts
from furlkit.files.container.atomic import write_bytes
from furlkit.files.replaceable import check_same_table
from furlkit.recipes import records
from furlkit.recipes.expand import expand
from furlkit.recipes.finished import changed_code
from furlkit.reports.claims import Claim, read_claims, verdict
from furlkit.reports.differences import CONFIDENCE, Difference, percent
from furlkit.reports.metrics import Value, check_labels, check_lowest, read_series
from furlkit.reports.results import Results
from furlkit.reports.table import check_format, render
from furlkit.reports.text import counted, plain

Row = dict[str, Any]
Table = list[tuple[str, ...]]
Rendered = Callable[[str], str]  # From a format to the table.
FORMS = {".txt": "text", ".csv": "csv", ".md": "markdown", ".tex": "latex"}
# Fields of a difference in CSV files.
DIFFERENCE = (
    *("estimate", "low", "high", "paired_by", "interval", "level", "includes_zero"),
    *("probes_alone", "within_probes"),
)


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Mean and deviations of each series, the paper's number, the paired difference.

    `published`: values of papers, LABEL=NUMBER in the displayed unit. `lowest`: labels
    with several files per seed, for example of clients, of which the lowest is used.
    With a file of `claims`, return verdicts instead.
    """
    labels = [label for label, _ in values["series"]]
    _check(values, labels)
    _warn_of_code(Path(path) for _, paths in values["series"] for path in paths)
    table, data = (
        _claims(values, labels) if values["claims"] else _scores(values, labels)
    )
    if output := values["output"]:
        text = table(FORMS[output.suffix])
        if not values["force"]:
            check_same_table(output, "-o", text)
        write_bytes(output, f"{text}\n".encode())
    title = f"\n{plain(values['title'])}:\n" if values["title"] else ""
    return title + table(values["format"]), data


def _check(values: dict[str, Any], labels: list[str]) -> None:
    check_format(values["format"])
    if (output := values["output"]) and output.suffix not in FORMS:
        raise UsageError(f"-o {output}: expected a name ending in {', '.join(FORMS)}")
    check_labels(labels)
    check_lowest(values["lowest"], labels)
    for name in ("reference", "published"):
        if values["claims"] and values[name]:
            raise UsageError(f"--{name} does not apply beside --claims")
    if values["interval"] != "t" and not (values["reference"] or values["claims"]):
        name = f"--interval {values['interval']}"
        raise UsageError(f"{name} does not apply without --reference or --claims")


def _read(values: dict[str, Any]) -> list[Results]:
    names = ("series", "protocol", "value", "reference", "lowest", "interval")
    given = {name: values[name] for name in (*names, "allow_different")}
    return read_series(**given)


def _warn_of_code(paths: Iterable[Path]) -> None:
    """Name planned runs with files made by code of a plugin that has changed since."""
    folders = {receipts.run_folder(str(path)) for path in paths}
    for folder in sorted(folder for folder in folders if folder is not None):
        with suppress(FurlkitError):  # A plan that this version cannot read.
            changed = changed_code(expand(*records.load(Path(folder))))
            for package, count in changed.items():
                console.warn(
                    f"{folder or '.'}: the code of {package} has changed since it made "
                    f"{counted(count, 'file')} of this run; run make again"
                )


def _shown(
    value: str, sign: str = "", by: float | None = None
) -> Callable[[float | None], str]:
    """Formatter of numbers of this name, times `by`; empty text for None."""
    scale = Value(value).scale
    digits = ".2f" if scale == 100 else ",.0f" if value.endswith("bytes") else ".4g"
    form, by = f"{sign}{digits}", scale if by is None else by
    return lambda number: "" if number is None else f"{by * number:{form}}"


def _interval_name(values: dict[str, Any]) -> str:
    return percent(CONFIDENCE) if values["interval"] == "t" else "Wilcoxon"


def _difference_cells(difference: Difference | None, value: str) -> tuple[str, ...]:
    """Cells: the difference, the difference by probes alone, and a note."""
    if difference is None:
        return "", "", ""
    alone = _shown(value)(difference.probes_alone)
    effect = difference.text(_shown(value, "+"))
    return effect, f"± {alone}" if alone else "", difference.note


def _rendered(table: Table, form: str, right: str) -> str:
    """Render a table without columns that are empty below the heading."""
    columns = zip(right, *table, strict=True)
    sides, *rows = zip(*(each for each in columns if any(each[2:])), strict=True)
    return render(rows, form, "".join(sides))


# --- scores ---------------------------------------------------------------------------


def _scores(
    values: dict[str, Any], labels: list[str]
) -> tuple[Rendered, dict[str, Any]]:
    value, reference = values["value"], values["reference"]
    published = dict(_published(values["published"], labels))
    found = _read(values)
    rows = [
        {**each.to_json(), "published": published.get(each.label)} for each in found
    ]
    data = {"value": value, "reference": reference, "rows": rows}

    def table(form: str) -> str:
        if form == "csv":
            return render(_numbers(rows, value), "csv")
        cells = _score_cells(values, found, rows, form != "text")
        return _rendered(cells, form, ".rrrrrrrr.")

    return table, data


def _score_cells(
    values: dict[str, Any], found: list[Results], rows: list[Row], paper: bool
) -> Table:
    """Cells of the table of scores, with a heading."""
    value, reference = values["value"], values["reference"]
    against = f"against {plain(reference or '')}, {_interval_name(values)}"
    unit = plain(f"{value}, %" if Value(value).scale == 100 else value)
    own = ("", "n", unit, "std", "probe std", "probe se", "published")
    table: Table = [(*own, against, "probes alone", "note")]
    for each, row in zip(found, rows, strict=True):
        *difference, note = _difference_cells(each.difference, value)
        notes = "; ".join(filter(None, (_stale(each), note)))
        table.append((*_own_cells(row, value, paper), *difference, notes))
    return table


def _stale(results: Results) -> str:
    """Note on scores of another model than the model beside the scores."""
    stale, every = len(results.stale), len(results.paths)
    return f"stale: {stale} of {counted(every, 'score')}" if stale else ""


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


def _numbers(rows: list[Row], value: str) -> list[tuple]:
    """Rows for programs, with numbers in the unit of the metrics files."""
    own, probes = ("label", "n", "mean", "std"), ("probe_std", "probe_se")
    names = "value", *own, "published", "difference", *DIFFERENCE[1:], *probes
    table: list[tuple] = [names]
    for row in rows:
        published = row["published"] and row["published"] / Value(value).scale
        difference = map(row.get("difference", {}).get, DIFFERENCE)
        first = value, *map(row.get, own), published
        table.append((*first, *difference, *map(row.get, probes)))
    return table


def _own_cells(row: Row, value: str, paper: bool) -> tuple[str, ...]:
    """Cells of a row up to the difference; in a paper, mean and std share a cell."""
    names = ("mean", "std", "probe_std", "probe_se")
    mean, std, *probes = map(_shown(value), map(row.get, names))
    if paper and std:
        mean, std = f"{mean} ± {std}", ""
    published = _shown(value, by=1)(row["published"])
    return plain(row["label"]), str(row["n"]), mean, std, *probes, published


# --- claims ---------------------------------------------------------------------------


def _claims(
    values: dict[str, Any], labels: list[str]
) -> tuple[Rendered, dict[str, Any]]:
    claims = read_claims(values["claims"], labels)
    judged = [_judged(claim, values) for claim in claims]
    rows = [row for row, _ in judged]
    cells = _claim_cells(values, judged)

    def table(form: str) -> str:
        if form == "csv":
            return render(_claim_numbers(rows), "csv")
        return _rendered(cells, form, "..rrrr..")

    return table, {"claims": rows}


def _claim_cells(values: dict[str, Any], judged: list[tuple[Row, Difference]]) -> Table:
    """Cells of the table of claims, with a heading."""
    ours = (f"ours, {_interval_name(values)}", "n", "probes alone")
    table: Table = [("claim", "score", "paper", *ours, "verdict", "note")]
    for row, difference in judged:
        value, score = row["value"], Value(row["value"], (row["protocol"],)).label
        paper = _shown(value, "+", by=1)(row["paper"]) or "> 0"
        effect, alone, note = _difference_cells(difference, value)
        note = "; ".join(filter(None, (row.get("stale"), note)))
        first = plain(row["claim"]), plain(score), paper, effect, str(difference.n)
        table.append((*first, alone, row["verdict"], note))
    return table


def _judged(claim: Claim, values: dict[str, Any]) -> tuple[Row, Difference]:
    """Return a claim with our difference, `higher` minus `lower`, and the verdict."""
    both = [each for each in values["series"] if each[0] in (claim.higher, claim.lower)]
    own = {key: getattr(claim, key) or values[key] for key in ("value", "protocol")}
    found = _read({**values, **own, "series": both, "reference": claim.lower})
    (difference,) = (each.difference for each in found if each.difference)
    row = {**claim._asdict(), **own, "difference": difference.to_json()}
    row["protocol"] = " or ".join(dict.fromkeys(each.protocol for each in found))
    if stale := "; ".join(filter(None, map(_stale, found))):
        row["stale"] = stale
    return {**row, "verdict": verdict(difference)}, difference


def _claim_numbers(rows: list[Row]) -> list[tuple]:
    """Claims for programs, with numbers in the unit of the metrics files."""
    first = ("claim", "higher", "lower", "value", "protocol")
    names = *first, "paper", "difference", *DIFFERENCE[1:], "n", "verdict"
    table: list[tuple] = [names]
    for row in rows:
        paper = row["paper"] and row["paper"] / Value(row["value"]).scale
        difference = map(row["difference"].get, (*DIFFERENCE, "n"))
        table.append((*map(row.get, first), paper, *difference, row["verdict"]))
    return table
