"""Files are declared on options: what plan and headers say follows from no help text."""

import ast
import json
import re
from pathlib import Path

import pytest

import furlkit
from furlkit.catalogue import (
    COMMANDS,
    FORMATS,
    READ,
    WRITTEN,
    Data,
    File,
    Labelled,
    reads_file,
    taker_of,
    writes_file,
)
from furlkit.catalogue.entries import CACHE
from furlkit.files.container.read import Container
from furlkit.files.kinds import KINDS

STAGES = [name for name, command in COMMANDS.items() if command.parts]
# Forms that --help shows for values which name files.
FILES = re.compile(r"FILE|PATH|FOLDER|CHECKPOINT|PARTITION|GLOBAL|PRIVATE|TARGETS")
PACKAGE = Path(furlkit.__file__).parent
WRITERS = [
    p for folder in ("stages", "reports") for p in (PACKAGE / folder).rglob("*.py")
]
PRESET = "preset"  # A table of options; plan compares the table, not the file.


def takers(name):
    return [*COMMANDS[name].arguments, *COMMANDS[name].options.values()]


@pytest.mark.parametrize("name", STAGES)
def test_every_file_of_a_command_declares_its_kind_and_direction(name):
    known = {*KINDS, *FORMATS}
    for taker in takers(name):
        form = f"{taker.metavar} {getattr(taker.kind, 'metavar', '')}"
        if FILES.search(form) and taker[0] != PRESET:
            assert isinstance(taker.kind, File | Data | Labelled), taker[0]
        if isinstance(taker.kind, File):
            assert {*taker.kind.kinds} <= known, taker[0]
            assert taker.kind.direction in (*READ, *WRITTEN, CACHE), taker[0]


def test_files_that_cross_the_border_of_a_site():
    options = COMMANDS["local-train"].options
    ways = {key: o.kind.direction for key, o in options.items() if writes_file(o)}
    assert ways.pop("private_out") == "kept"
    assert {"output", "features_out"} <= ways.keys() and {*ways.values()} == {"sent"}
    read = {o.name: o.kind for o in options.values() if reads_file(o)}
    ways = {name: k.direction for name, k in read.items() if isinstance(k, File)}
    assert ways.pop("align") == "received once" and ways.pop("private") == "recalled"
    local = {ways.pop(name) for name in ("neighbours-from", "data-root", "signers")}
    assert local == {"read"}
    assert {"dictionary", "helper"} <= ways.keys() and {*ways.values()} == {"received"}


def test_headers_name_the_roles_that_options_declare(world):
    for path in (*world.clients, world.partition, world.model):
        header = Container(path).header
        for role in header.inputs:
            assert taker_of(header.stage, role) is not None, role
    assert {*Container(world.clients[0]).header.inputs} == {"global", "partition"}


def written_roles(tree, roles):
    """Dictionary entries with a role as the key and a content hash as the value."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            pairs = [*zip(node.keys, node.values, strict=True)]
        elif isinstance(node, ast.DictComp):
            pairs = [(node.key, node.value)]
        else:
            continue
        for key, value in pairs:
            parts = key.values if isinstance(key, ast.JoinedStr) else [key]
            first = getattr(parts[0], "value", None)  # Of "client 3", "client ".
            named = isinstance(first, str) and first.strip() in roles
            if named and isinstance(value, ast.Attribute) and value.attr == "content":
                yield first


def all_roles():
    return {role for name in STAGES for role in COMMANDS[name].roles}


# Modules with facts, printed results or records of use that have the names of roles.
OTHERS = {
    *("stages/aggregate/masked.py", "stages/evaluate/negatives.py"),
    *("stages/mask/upload.py", "stages/pretrain_align/__init__.py"),
}


@pytest.mark.parametrize("path", WRITERS, ids=lambda path: path.stem)
def test_no_module_writes_the_role_of_an_input_by_hand(path):
    if path.relative_to(PACKAGE).as_posix() not in OTHERS:
        assert [*written_roles(ast.parse(path.read_text()), all_roles())] == []


def test_roles_written_by_hand_are_found():
    source = 'a = {"model": m.content}; b = {f"client {k}": c.content for k, c in d}'
    assert [*written_roles(ast.parse(source), all_roles())] == ["model", "client "]


REWORDED = """
import sys
from importlib import import_module
from furlkit import catalogue
from furlkit.cli.program import _outcome

def reword(part):
    if isinstance(part, catalogue.Argument):
        return part._replace(metavar="WORD")
    if isinstance(part, catalogue.Group):
        return part._replace(options=tuple(
            o._replace(metavar="WORD", help="Another help.") for o in part.options))
    return part

if sys.argv[1] == "reworded":
    for name in ("partition", "init", "pretrain_align", "local_train", "aggregate"):
        module = import_module(f"furlkit.cli.{name}")
        parts = tuple(reword(part) for part in module.COMMAND.parts)
        module.COMMAND = module.COMMAND._replace(parts=parts)
sys.exit(_outcome(["plan", "recipe.toml", "--as", "json", "--dry-run"]))
"""


RECIPE = """
[settings]
clients = 2
rounds = 1
out = "exp"
[files]
global = "r{round}/global.st"
upload = "r{round}/client_{client}.st"
[stages]
partition = "partition --data own.npz --groups patients.csv -o {partition}"
init = "init --data own.npz -o {global@0}"
align = "pretrain-align {global@0} --data digits --targets-out {targets} -o {align}"
train = "local-train {partition} {global@last} --data own.npz --client {client} --align {targets} --align-data digits -o {upload}"
average = "aggregate {upload*} -o {global}"
"""


def test_other_help_texts_change_no_dependency(recipe, python, tmp_path):
    (tmp_path / "patients.csv").write_text("group\n1\n")
    (tmp_path / "own.npz").write_bytes(b"images")
    recipe(RECIPE)
    first, reworded = (json.loads(python(REWORDED, w)) for w in ("as is", "reworded"))
    assert first == reworded
    (run,) = first
    found = {step["stage"]: step for step in run["steps"]}
    assert {"own.npz", "patients.csv"} <= {*found["partition"]["after"]}
    assert "exp/targets.safetensors" in found["train"]["reads"]
    assert found["align"]["outputs"] == ["exp/targets.safetensors"]
