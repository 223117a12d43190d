"""The table of open questions of each system: its options and its preset's values."""

import re
import shlex
import tomllib
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from furlkit import catalogue, presets
from tests.examples.conftest import EXAMPLES

SYSTEMS = ("fedca", "fcl", "fedusc", "fedstyle", "flesd")
HEAD = ["question", "printed text", "readings"]


class Row(NamedTuple):
    question: str
    printed: str
    readings: str
    choice: str


def table_of(system: str) -> tuple[str, list[Row]]:
    """The last column's title, and the rows of a page's only table of questions."""
    page = (EXAMPLES / system / "README.md").read_text()
    (section,) = re.findall(r"^## Open questions\n(.*?)(?=^## |\Z)", page, re.M | re.S)
    lines = re.search(r"(?:^\|.*\n)+", section, re.M)
    assert lines
    cells = [re.split(r" (?<!\\)\| ", x[2:-2]) for x in lines[0].splitlines()]
    assert cells[0][:3] == HEAD and len(cells[0]) == 4
    return cells[0][3], [Row(*row) for row in cells[2:]]


def spans(text: str) -> list[str]:
    """Words in code type."""
    return re.findall(r"`([^`]+)`", text)


def flattened(tables: dict[str, Any], before: str = "") -> dict[str, Any]:
    """Values of nested tables by dotted names."""
    found: dict[str, Any] = {}
    for key, value in tables.items():
        inner = isinstance(value, dict)
        name = f"{before}{key}"
        found |= flattened(value, f"{name}.") if inner else {name: value}
    return found


def read(system: str, name: str) -> dict[str, Any]:
    return tomllib.loads((EXAMPLES / system / name).read_text())


def names_of(system: str) -> set[str]:
    """Words that a page may use: presets, commands, rows, datasets, tables."""
    cases = (v for v in read(system, "paper.toml").values() if isinstance(v, dict))
    rows = {name for case in cases for name in case}
    known = {*presets.names(), *catalogue.COMMANDS, *rows}
    return known | {f"examples/{name}" for name in SYSTEMS} | {"images", "digits"}


def values_of(system: str, key: str) -> list[Any]:
    """A value of the recipe, or of all tables of the preset, or of the paper's rows."""
    recipe, tables = (
        read(system, n)["settings"] for n in ("recipe.toml", "paper.toml")
    )
    preset = flattened(presets.tables(system))
    ours = [v for k, v in preset.items() if k == key or k.endswith(f".{key}")]
    return [recipe[key]] if key in recipe else ours or [tables[key]]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_page_has_one_table_with_every_cell_filled(system):
    title, rows = table_of(system)
    assert title == f"preset `{system}`" and len(rows) >= 10
    assert all(cell.strip() for row in rows for cell in row)
    assert len({row.question for row in rows}) == len(rows)
    page = (EXAMPLES / system / "README.md").read_text()
    for link in re.findall(r"\]\(([\w.]+)\)", page):
        assert (EXAMPLES / system / link).exists()


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_choices_of_a_preset_are_those_of_its_file(system):
    checked = 0
    for row in table_of(system)[1]:
        for text in (s for s in spans(row.choice) if " = " in s):
            key, value = text.split(" = ")
            wanted = tomllib.loads(f"value = {value}")["value"]
            ours = values_of(system, key)
            assert ours and all(one == wanted for one in ours), (row.question, text)
            checked += 1
    assert checked >= 7


def settings_of(system: str) -> list[list[str]]:
    """The settings of all readings, as words of plan."""
    texts = [s for row in table_of(system)[1] for s in spans(row.readings + row.choice)]
    return [shlex.split(s) for s in texts if re.match(r"[a-z]\w*=", s)]


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_reading_can_be_planned(system, run):
    readings = settings_of(system)
    assert len(readings) >= 10
    short = ["rounds=1", *(["pretext_rounds=1"] if system == "fedusc" else [])]
    own = read(system, "recipe.toml")
    for words in readings:
        keys = {word.partition("=")[0] for word in words}
        fits = keys <= {*own["settings"], *own["stages"], "fraction"}
        name = "recipe.toml" if fits else "paper.toml"
        kept = [word for word in words if not word.startswith("rounds=")]
        done = run("plan", EXAMPLES / system / name, *kept, *short, "--dry-run")
        assert done.code == 0, (words, done.err)


@pytest.mark.parametrize("system", SYSTEMS)
def test_every_other_word_in_code_type_exists(system):
    known = names_of(system)
    commands = catalogue.COMMANDS.values()
    flags = {
        f"--{name.replace('_', '-')}"
        for command in commands
        for name in command.options
    }
    for row in table_of(system)[1]:
        for text in spans(" ".join(row)):
            if " = " not in text and not re.match(r"[a-z]\w*=", text):
                assert text in known | flags or Path(text).suffix, (row.question, text)
