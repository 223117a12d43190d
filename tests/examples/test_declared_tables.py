"""Every table of scores by seed names its declared table: rows, seeds and reference."""

import re
from itertools import pairwise
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, labels, shown, values
from tests.examples.test_numbers_agree import (
    AGAINST,
    SYSTEMS,
    read_table,
    scores,
)

PAGES = [EXAMPLES / "curves" / "README.md"]
PAGES += [EXAMPLES / system / "RESULTS.md" for system in SYSTEMS]
WORDS = re.compile(r"`(table=[^`]+)`")
# Rows that commands below the tables make: labels choose neighbours.
BY_HAND = {("fedusc", "digits, phase 2")}


def of_seeds() -> list:
    """Tables with scores of several seeds, each with the block above."""
    found = []
    for page in PAGES:
        blocks = page.read_text().split("\n\n")
        for text, block in pairwise(blocks):
            if not block.startswith("|"):
                continue
            table = read_table(block)
            by_hand = (page.parent.name, next(iter(table[0]))) in BY_HAND
            if any(map(scores, table)) and not by_hand:
                case = (page, text, table)
                found.append(pytest.param(*case, id=f"{page.parent.name}-{len(found)}"))
    return found


@pytest.mark.parametrize("page, text, table", of_seeds())
def test_a_table_has_rows_seeds_and_reference_of_a_declared_table(
    plan, page, text, table
):
    words = WORDS.search(text)
    assert words, f"the paragraph above names no table: {text}"
    commands = shown(plan(*recipe_and_settings(page.parent, words[1])))
    comparisons = [command for command in commands if command[0] == "compare"]
    rows = [bare(next(iter(row.values()))) for row in table]
    declared = [list(map(bare, labels(command))) for command in comparisons]
    assert any(in_order(rows, names) for names in declared), (rows, declared)
    against = next(filter(None, map(AGAINST.fullmatch, table[0])), None)
    for command in comparisons:
        for series in values(command, "--series"):
            assert seeds_of(series) == printed_seeds(table)
        if against:
            assert values(command, "--reference") == [against[1]]


def in_order(some: list[str], every: list[str]) -> bool:
    """Whether the list has these entries, in this order; it may have more."""
    rest = iter(every)
    return all(entry in rest for entry in some)


def recipe_and_settings(folder: Path, words: str) -> list:
    """The recipe with the tables of a folder, and the words of a plan."""
    paper = folder / "paper.toml"
    return [paper if paper.exists() else folder / "recipe.toml", *words.split()]


def bare(label: str) -> str:
    """A label without a remark in brackets."""
    return re.sub(r" \([^()]*\)$", "", label).strip("`")


def printed_seeds(table: list[dict[str, str]]) -> list[int]:
    (name,) = (name for name in table[0] if name.startswith("seeds "))
    return list(map(int, re.findall(r"\d+", name)))


def seeds_of(series: str) -> list[int]:
    """The seeds in the paths of a series, each once."""
    return sorted({int(seed) for seed in re.findall(r"/seed(\d+)/", series)})
