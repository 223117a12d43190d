"""examples/hostile: its recipes, its Makefile, its page, and a tiny run."""

import json
import re

import pytest

from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values

HOSTILE = EXAMPLES / "hostile"
MAKE = "make -f examples/hostile/Makefile"
ROWS = {
    "mean": "mean", "median": "median", "trimmed-mean": "trimmed-mean",
    "geometric-median": "geometric-median", "krum": "krum", "multi-krum": "krum",
    "clip": "clip", "l-dawa": "l-dawa",
}  # fmt: skip
TINY = (
    "data=digits", "rounds=1", "init=--width 0.02 --projector 16,8",
    "train=--epochs 1 --batch-size 64",
)  # fmt: skip


def test_the_recipe_has_25_lines_at_most():
    assert len((HOSTILE / "recipe.toml").read_text().splitlines()) <= 25


def test_files_pass_through_the_attack(plan):
    steps = plan(HOSTILE / "recipe.toml", "rounds=2", "rule=clip", "kind=flip")
    for step in of(steps, "lie"):
        (client,), folder = step["clients"], f"exp/r{step['round']:03}"
        assert f"{folder}/trained_{client}.safetensors" in step["reads"]
        assert step["outputs"] == [f"{folder}/client_{client}.safetensors"]
        assert values(step["command"], "--clients") == ["3,8"]
    for step in of(steps, "average"):
        folder = f"exp/r{step['round']:03}"
        before = f"exp/r{step['round'] - 1:03}/global.safetensors"
        assert values(step["command"], "--parent") == [before]
        report, model = f"{folder}/report.json", f"{folder}/global.safetensors"
        assert step["writes"] == [report, model]
        assert not any("trained" in path for path in step["reads"])


@pytest.mark.parametrize("dataset", ["cifar10", "digits", "images"])
@pytest.mark.parametrize("attack", ["none", "scale", "flip", "noise"])
def test_every_row_is_planned(plan, dataset, attack):
    given = (f"dataset={dataset}", f"attack={attack}", "rounds=1")
    for row, rule in ROWS.items():
        steps = plan(HOSTILE / "tables.toml", f"row={row}", *given)
        (average,) = of(steps, "average")
        assert values(average["command"], "--rule") == [rule]
        chosen = ["8"] if row == "multi-krum" else []
        assert values(average["command"], "--chosen") == chosen
        who = {"99"} if attack == "none" else {"3,8"}
        assert {values(s["command"], "--clients")[0] for s in of(steps, "lie")} == who
        assert len(of(steps, "train")) == 10


@needs_make
def test_the_page_s_commands(recorded, check_all):
    commands = [c for block in blocks(HOSTILE / "README.md") for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) >= 12
    check_all(commands)


def test_the_makefile_s_own_examples_exist():
    text = (HOSTILE / "Makefile").read_text()
    shown = re.findall(r"^# +make .*Makefile(?: -j2)? ([a-z-]+) {2,}", text, re.M)
    assert {"table-none", "table-scale", "table-flip", "table-noise"} <= {*shown}
    assert {target.split("-")[0] for target in shown} == {"table", "tables", "named"}


@pytest.mark.parametrize("kind", ["scale", "noise"])
def test_a_tiny_run_names_the_attackers(tmp_path, plan, run, kind):
    """One training, then more rules on the same uploads."""
    recipe, out = HOSTILE / "recipe.toml", tmp_path / "run"
    given = (recipe, f"kind={kind}", f"out={out}", *TINY, "--group", 10)
    assert run("plan", *given, "-o", tmp_path / "run.mk").code == 0
    steps = plan(*given)
    for step in (s for s in steps if s["stage"] != "linear"):
        done = run(*step["command"], "-q")
        assert done.code == 0, done.err
    folder = out / "r001"
    assert json.loads((folder / "report.json").read_text())["stands_out"] == [3, 8]
    said = run("status", out).out
    assert "stands out: client 3 in round 1\n" in said and "client 8 in" in said
    trained, sent = (
        [(folder / f"{name}_{k}.safetensors").read_bytes() for k in range(10)]
        for name in ("trained", "client")
    )
    assert [k for k in range(10) if trained[k] != sent[k]] == [3, 8]
    (average,) = of(steps, "average")
    for rule in ("mean", "krum", "clip"):
        command = [rule if word == "median" else word for word in average["command"]]
        done = run(*command, "--force")
        assert done.code == 0 and "client 3 (norm" in done.err
