"""The 31 tables and figures with results: each has commands at both scales."""

import re
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from tests.examples.conftest import EXAMPLES


class Item(NamedTuple):
    """A table or figure: table or target, datasets of the paper, and if it is drawn."""

    name: str
    target: str
    datasets: tuple[str, ...]
    drawn: bool = False


INSPECTED = "furlkit inspect"  # Packed files are described without a run.
CIFAR = ("cifar10", "cifar100")
STYLES = ("digit", "officehome", "adaptiope")
ITEMS = {
    "fedca": [
        Item("Table 1", "1", (*CIFAR, "miniimagenet")),
        Item("Table 2", "2", (*CIFAR, "miniimagenet")),
        Item("Table 3", "3", (
            "cifar100 target=cifar10",
            "miniimagenet target=cifar10 target_size=84",
            "miniimagenet target=cifar100 target_size=84",
        )),
        Item("Figure 3", "figure3", CIFAR[:1], drawn=True),
        Item("Figure 4", "figure4", CIFAR[:1], drawn=True),
        Item("Figure 5", "figure5", ("cifar10 encoder=resnet50",), drawn=True),
    ],
    "fcl": [
        Item("Table 1", "1", (*CIFAR, "fmnist")),
        Item("Table 2", "2", (*CIFAR, "fmnist")),
        Item("Table 3", "3", (*CIFAR, "fmnist")),
        Item("Figure 4", "figure4", CIFAR, drawn=True),
        Item("Figure 5", "figure5", CIFAR[:1], drawn=True),
    ],
    "fedusc": [
        Item("ablation (a)", "augmentation", CIFAR[:1]),
        Item("ablation (b)", "pretext", CIFAR[:1]),
        Item("ablation (c)", "update", CIFAR[:1]),
        Item("ablation (d)", "parts", CIFAR[:1]),
        Item("headline table", "headline", CIFAR[:1]),
        Item("picture of the number of clients", "clients", CIFAR[:1], drawn=True),
        Item("datasets table", "datasets", (
            "svhn", "stl10", "mini-imagenet", "covid-xray",
        )),
    ],
    "fedstyle": [
        Item("Table 1", "1", STYLES),
        Item("Table 2", "2", STYLES[1:]),
        Item("Table 3", "3", STYLES[:1]),
        Item("Table 4", "4", STYLES[1:]),
        Item("Table 5", INSPECTED, ()),
        Item("Figure 4", "figure4", STYLES[:1], drawn=True),
        Item("Figure 5", "figure5", STYLES[:1], drawn=True),
        Item("figure on the stylised content feature", "content", STYLES, drawn=True),
        Item("figure on the style extraction time", "extraction", STYLES[2:],
             drawn=True),
    ],
    "flesd": [
        Item("Table 1", "1", (*CIFAR, "tinyimagenet", "imagenet100")),
        Item("Figure 2", "figure2", CIFAR[:1], drawn=True),
        Item("Figure 4", "figure4", CIFAR[1:], drawn=True),
        Item("Figure 5", "figure5", CIFAR[1:], drawn=True),
    ],
}  # fmt: skip
TABLE = r"^\| in the (?:paper|slides) \|.*\n(?:\|.*\n)+"
# The scale of two cores; three styles of digits are `images`.
SMALL = {"fedstyle": "images"}


def test_there_are_31_and_the_pages_list_them():
    assert sum(len(items) for items in ITEMS.values()) == 31
    for system, items in ITEMS.items():
        page = (EXAMPLES / system / "README.md").read_text()
        (table,) = re.findall(TABLE, page, re.M)
        head, _, *lines = table.splitlines()
        rows = {cells[1]: cells for cells in map(cells_of, lines)}
        for item in items:
            cells = rows[item.name]
            assert f"`{item.target}`" in cells[2], item
            drawn = cells[cells_of(head).index("drawn")]
            assert bool(drawn) >= item.drawn, item


def test_command_lines_have_no_switches():
    """Rows change stages; {name?} in a command line is gone."""
    paths = [*EXAMPLES.rglob("*.toml")]
    assert len(paths) > 20
    for path in paths:
        assert not re.search(r"\{\w+\?\}", path.read_text()), path


def test_no_makefile_of_a_paper_remains():
    assert [p.parent.name for p in EXAMPLES.rglob("Makefile")] == ["demo"]


def cells_of(line: str) -> list[str]:
    return [cell.strip() for cell in line.split("|")]


def cases() -> Iterator[tuple[str, Item, str]]:
    for system, items in ITEMS.items():
        for item in (item for item in items if item.target != INSPECTED):
            for words in (SMALL.get(system, "digits"), *item.datasets):
                yield system, item, words


@pytest.mark.slow
@pytest.mark.parametrize("system, item, words", [*cases()])
def test_every_table_is_planned_at_both_scales(plan, system, item, words):
    short = ["seed=0", "rounds=1", *["pretext_rounds=1"] * (system == "fedusc")]
    settings = [f"table={item.target}", *f"dataset={words}".split(), *short]
    commands = [s["command"] for s in plan(EXAMPLES / system / "paper.toml", *settings)]
    drawn = [words for words in commands if words[0] in ("compare", "plot")]
    assert drawn and len(drawn) < len(commands)
    assert any(words[0] == "plot" for words in drawn) >= item.drawn
