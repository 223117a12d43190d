"""What the README shows works, and what it names exists."""

import glob
import json
import re
import shlex
from pathlib import Path

import pytest

import furlkit
from furlkit import catalogue, presets
from furlkit.catalogue.table import methods_table, with_table
from furlkit.cli.program import _outcome
from furlkit.cli.program import furlkit as program
from furlkit.data.sets.torchvision import TORCHVISION_SETS
from tests.helpers import photographs

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
METHODS = (ROOT / "furlkit/METHODS.md").read_text()
PACKAGE = Path(furlkit.__file__).parent


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.M | re.S)


def commands(block: str) -> list[list[str]]:
    lines = block.replace("\\\n", " ").splitlines()
    words = (shlex.split(line) for line in lines if line.startswith("furlkit "))
    return [[name for word in line for name in expanded(word)] for line in words]


def expanded(word: str) -> list[str]:
    return sorted(glob.glob(word)) or [word]


def carry_out(words: list[str], capsys) -> None:
    """Run the steps of a plan in this process, which takes less time than make."""
    capsys.readouterr()
    assert _outcome([*words[: words.index("-o")], "--as", "json"]) == 0
    for run in json.loads(capsys.readouterr().out):
        for step in run["steps"]:
            assert _outcome(step["command"]) == 0, capsys.readouterr().err


def test_its_commands_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    photographs(tmp_path / "photos-a", 0, 12)
    photographs(tmp_path / "photos-b", 12, 12)
    text = "".join(blocks("sh")).replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line]
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    planned: list[str] = []
    for line in lines:
        if line.startswith("make "):
            carry_out(planned, capsys)
            continue
        # Globs are expanded line by line, when the files they match are there.
        (words,) = commands(line)
        planned = words[1:] if words[1] == "plan" else planned
        assert _outcome(words[1:]) == 0, capsys.readouterr().err
    for name in ("curve.png", "encoder/model.safetensors", "r001/linear.json"):
        assert (tmp_path / "exp" / name).stat().st_size > 0
    assert (tmp_path / "own" / "encoder" / "model.safetensors").stat().st_size > 0


def test_it_is_short():
    # The lines of tables and the arrows of the drawing are no words.
    assert sum(bool(re.search(r"\w", word)) for word in README.split()) < 1200


def test_every_command_it_names_exists():
    named = set(re.findall(r"`furlkit ([a-z][a-z-]*)", README))
    assert named
    assert named <= set(program.list_commands())


MODULES = sorted(set(re.findall(r"`((?:\w+/)*\w+\.py)`", README + METHODS)))


@pytest.mark.parametrize("module", MODULES)
def test_every_module_it_names_exists(module):
    assert (PACKAGE / module).is_file() or (PACKAGE.parent / module).is_file()


def test_presets_it_names_exist_and_every_objective_is_in_the_table_of_methods():
    table = README.split("## Methods")[1].split("Parts of different systems")[0]
    named = set(re.findall(r"`([a-z-]+)`", table))
    assert len(named) > 20 and named <= {*presets.names()}
    for objective in catalogue.OBJECTIVES.values():
        assert f"`--objective {objective.name}`" in METHODS


FOLLOWS = ("as printed", "differs: ", "nothing printed")


def test_every_method_says_whether_it_follows_its_equation():
    rows = re.findall(r"^\| `.*$", METHODS.replace("\\|", "/"), re.M)
    assert len(rows) > len(methods_table().splitlines())
    cells = [row.removesuffix(" |").rpartition(" | ")[2] for row in rows]
    assert [cell for cell in cells if not cell.startswith(FOLLOWS)] == []
    flags = {flag for cell in cells for flag in re.findall(r"--([a-z0-9-]+)", cell)}
    commands = catalogue.COMMANDS.values()
    known = {option.name for c in commands for option in c.options.values()}
    assert {flag.removeprefix("no-") for flag in flags} <= known


def test_the_table_of_methods_is_the_catalogue_s():
    assert with_table(METHODS) == METHODS, "run make methods"
    assert with_table("a\n<!-- methods: -->\nold\n<!-- end of methods -->\nz") == (
        f"a\n<!-- methods: -->\n{methods_table()}\n<!-- end of methods -->\nz"
    )


def test_every_dataset_is_in_its_table_with_its_place():
    table = README.split("| `--data` |")[1].split("\n\n")[0]
    for entry in TORCHVISION_SETS.values():
        assert f"`{entry.name}`" in table and f"`{entry.place}`" in table


def test_every_kind_of_file_is_in_its_table():
    from furlkit.files.kinds import KINDS

    table = README.split("## Files")[1].split("## ")[0]
    for kind in (*KINDS, "metrics"):
        assert re.search(rf"^\|.*\b{kind}\b", table, re.M), kind
