"""The numbers of the pages of results agree: means, intervals, verdicts, README."""

import re
import tomllib
from collections import Counter
from pathlib import Path
from statistics import mean, stdev

import pytest

from furlkit.reports.claims import verdict
from furlkit.reports.differences import (
    CONFIDENCE,
    MOST_SEEDS,
    Difference,
    Interval,
    paired,
)
from tests.examples.conftest import EXAMPLES

SYSTEMS = ("fedca", "fcl", "fedusc", "fedstyle", "flesd")
PAPER = "paper.toml"  # Its claims replace claims of other files with the same text.
NUMBER = r"[-+]?\d[\d,]*(?:\.\d+)?"
SCORES = re.compile(rf"{NUMBER}(?:, {NUMBER})+")
INTERVAL = re.compile(rf"({NUMBER}) \(({NUMBER}) to ({NUMBER})\)")
AGAINST = re.compile(r"against (.+), paired, 95 %")

Row = dict[str, str]  # The cells of a line by the heading; "" for the first column.


def tables(page: Path) -> list[list[Row]]:
    """The tables of a page."""
    pattern = r"^\|.*\|\n\|[-:| ]+\|\n(?:\|.*\n)+"
    return list(map(read_table, re.findall(pattern, page.read_text(), re.M)))


def read_table(text: str) -> list[Row]:
    """The rows of a table, by the headings."""
    top, _, *lines = text.splitlines()
    return [dict(zip(cells(top), cells(line), strict=True)) for line in lines]


def cells(line: str) -> list[str]:
    """Cells of a line of a table; a bar after a backslash is text."""
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def number(text: str) -> float:
    return float(text.replace(",", ""))


def interval(text: str) -> tuple[float, ...]:
    """Estimate, low and high end."""
    found = INTERVAL.fullmatch(text)
    assert found, text
    return tuple(map(number, found.groups()))


def scores(row: Row) -> list[float]:
    """The scores of a row by seed; nothing without a column of seeds."""
    cell = next((cell for name, cell in row.items() if name.startswith("seeds ")), "")
    return [number(one) for one in cell.split(", ")] if SCORES.fullmatch(cell) else []


def of_seeds() -> list:
    """Every table with the scores of several seeds."""
    return [
        pytest.param(table, id=f"{page.parent.name}-{place}")
        for page in sorted(EXAMPLES.glob("*/R*.md"))
        for place, table in enumerate(tables(page))
        if any(map(scores, table))
    ]


@pytest.mark.parametrize("table", of_seeds())
def test_means_and_deviations_are_of_the_seeds(table):
    for row in filter(scores, table):
        for name, value in (("mean", mean), ("std", stdev)):
            if row.get(name):
                assert number(row[name]) == pytest.approx(
                    value(scores(row)), abs=0.0101
                )


def references(table: list[Row]) -> list[Row]:
    """Rows without a difference, in a table with a column of differences."""
    column = next(filter(AGAINST.fullmatch, table[0]), None)
    return [row for row in table if column and scores(row) and not row[column]]


@pytest.mark.parametrize(
    "table", [case for case in of_seeds() if len(references(case.values[0])) == 1]
)
def test_differences_are_of_the_seeds(table):
    (reference,) = references(table)
    column = next(filter(AGAINST.fullmatch, table[0]))
    rows = [row for row in table if row is not reference and scores(row)]
    assert rows
    for row in rows:
        expected = paired(scores(row), scores(reference)).effect[:3]
        # Seeds have two decimals, so the ends of an interval vary by hundredths.
        assert interval(row[column]) == pytest.approx(expected, abs=0.04)


def claims_of(system: str) -> list[Row]:
    """The rows of a page's tables of verdicts."""
    every = tables(EXAMPLES / system / "RESULTS.md")
    return [row for table in every if "verdict" in table[0] for row in table]


def declared_claims(system: str) -> dict[str, dict]:
    """The claims that the recipe and its files of claims declare."""
    files = sorted((EXAMPLES / system).glob("*.toml"), key=lambda f: f.name == PAPER)
    return {
        text: claim
        for file in files
        for text, claim in tomllib.loads(file.read_text()).get("claims", {}).items()
    }


@pytest.mark.parametrize("system", SYSTEMS)
def test_claims_are_the_declared_claims(system):
    declared = declared_claims(system)
    for row in claims_of(system):
        text = row["claim"]
        if (
            text not in declared
        ):  # A page about several datasets names the dataset first.
            text = text.split(": ", 1)[1]
        value = declared[text].get("paper")
        # \\> 0 is a claim about the order alone.
        expected = r"\> 0" if value is None else f"{value:+.2f}"
        assert expected == (row.get("paper") or row["slides"])


@pytest.mark.parametrize("system", SYSTEMS)
def test_a_page_of_results_begins_with_the_verdicts(system):
    first = tables(EXAMPLES / system / "RESULTS.md")[0]
    assert "verdict" in first[0]


@pytest.mark.parametrize("system", SYSTEMS)
def test_verdicts_follow_from_the_intervals(system):
    rows = claims_of(system)
    assert rows
    for row in rows:
        estimate, low, high = interval(row["ours, 95 %"])
        alone = re.search(NUMBER, row.get("probes alone", ""))
        noise = number(alone[0]) / 2 if alone else None
        effect = Interval(estimate, low, high, CONFIDENCE)
        assert row["verdict"] == verdict(
            Difference(estimate, effect, 3, probe_se=noise)
        )


@pytest.mark.parametrize("system", SYSTEMS)
def test_undecided_claims_state_the_seeds_that_a_decision_needs(system):
    for row in claims_of(system):
        estimate, low, high = interval(row["ours, 95 %"])
        wide = low <= 0 <= high
        assert wide is ("interval includes 0" in row["note"]), row["claim"]
        if wide:
            fewest, most = (
                needed(abs(estimate) + step, high - estimate - step)
                for step in (0.01, -0.01)  # Both numbers are rounded.
            )
            said = re.search(r"needs (more than|about) ([\d,]+) seeds", row["note"])
            assert said, row["claim"]
            assert fewest <= number(said[2]) + (said[1] == "more than") <= most


def needed(estimate: float, half: float) -> int:
    """Seeds whose interval excludes 0, from a difference and half of its interval."""
    effect = Interval(estimate, estimate - half, estimate + half, CONFIDENCE)
    return Difference(estimate, effect, 3).seeds_needed or MOST_SEEDS + 1


def test_the_readme_counts_the_verdicts():
    text = (EXAMPLES.parent / "README.md").read_text()
    for system in SYSTEMS:
        counts = Counter(row["verdict"] for row in claims_of(system))
        line = re.search(
            rf"^\| \[.*\]\(examples/{system}/RESULTS.md\) \|.*$", text, re.M
        )
        assert line, system
        names = ("confirmed", "refuted", "undecided")
        printed = [int(cell) for cell in cells(line[0])[1:4]]
        assert printed == [counts[name] for name in names], system
