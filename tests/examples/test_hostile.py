"""examples/hostile: recipes, tables, page, and a tiny run."""

import json
import re

import numpy as np
import pytest

from furlkit.data.sets.source import Source
from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values

HOSTILE = EXAMPLES / "hostile"
ROWS = {
    "mean": "mean", "median": "median", "trimmed-mean": "trimmed-mean",
    "geometric-median": "geometric-median", "krum": "krum", "multi-krum": "krum",
    "clip": "clip", "l-dawa": "l-dawa",
}  # fmt: skip
ATTACKS = ("scale", "flip", "noise", "alie", "ipm", "min-max", "sybil", "backdoor")
CLIENTS = {"0": "99", "20": "3,8", "30": "1,3,8"}
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


@pytest.mark.parametrize(
    "dataset, attack, hostile",
    [
        *[(dataset, "scale", "20") for dataset in ("cifar10", "digits", "images")],
        *[("digits", attack, "30") for attack in ATTACKS],
        ("digits", "scale", "0"),
    ],
)
def test_every_row_is_planned(plan, dataset, attack, hostile):
    given = (f"dataset={dataset}", f"attack={attack}", f"hostile={hostile}", "rounds=1")
    for row, rule in ROWS.items():
        steps = plan(HOSTILE / "tables.toml", f"row={row}", *given)
        (average,) = of(steps, "average")
        assert values(average["command"], "--rule") == [rule]
        some, few = ("7", "3") if hostile == "30" else ("8", "2")
        chosen = [some] if row == "multi-krum" else []
        assert values(average["command"], "--chosen") == chosen
        assumed = [few] if rule == "krum" else []
        assert values(average["command"], "--assumed-hostile") == assumed
        for step in of(steps, "lie"):
            assert values(step["command"], "--clients") == [CLIENTS[hostile]]
            assert values(step["command"], "--kind") == [attack]
        assert len(of(steps, "train")) == 10


@needs_make
def test_the_page_s_commands(recorded, check_all):
    commands = [c for block in blocks(HOSTILE / "README.md") for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) == 4
    check_all(commands)


def test_tables_compare_every_rule_with_honest_clients(plan):
    """The reference has no hostile client; hostile=30 reaches the other runs."""
    given = ("table=attacks", "attack=flip", "hostile=30", "dataset=digits", "rounds=1")
    steps = plan(HOSTILE / "tables.toml", *given)
    folder = "exp/hostile/digits"
    (table,) = (s["command"] for s in steps if s["command"][0] == "compare")
    last = {row: f"{folder}/flip-30/{row}/seed0/r001/linear.json" for row in ROWS}
    last |= {"nobody lies": f"{folder}/none/mean/seed0/r001/linear.json"}
    last |= {"untrained": f"{folder}/none/mean/seed0/r000/linear.json"}
    assert {*values(table, "--series")} == {f"{k}={v}" for k, v in last.items()}
    for step in of(steps, "lie"):
        honest = "/none/" in step["outputs"][0]
        attackers = CLIENTS["0" if honest else "30"]
        assert values(step["command"], "--clients") == [attackers]
    chosen = plan(HOSTILE / "tables.toml", *given, "row=clip")
    (table,) = (s["command"] for s in chosen if s["command"][0] == "compare")
    assert len(values(table, "--series")) == 3


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


def test_stamped_images_have_the_trigger_and_the_label_of_the_target(python, tmp_path):
    script = "import runpy, sys; sys.argv = sys.argv[1:]; "
    script += "runpy.run_path(sys.argv[0], run_name='__main__')"
    output = tmp_path / "stamped.npz"
    python(script, HOSTILE / "stamp.py", "digits", "digits", output, "--target", 1)
    found, digits = np.load(output), Source("digits", split="test").images()
    label = int(Source("digits").labels().labels[1])
    others = np.asarray(digits.labels) != label
    assert (found["labels"] == label).all() and len(found["labels"]) == others.sum()
    assert (found["images"][:, -2:, -2:] == 255).all()
    expected = np.asarray(digits.images)[others][:, :-2]
    assert (found["images"][:, :-2] == expected).all()


def test_the_page_names_every_attack_and_row():
    text = (HOSTILE / "README.md").read_text()
    for name in (*ATTACKS, *ROWS):
        assert re.search(rf"^\| `{name}` \|", text, re.M), name


def tables_of_results() -> list[list[list[str]]]:
    """Cells of the tables with the column `worst attack`, without the headings."""
    text = (HOSTILE / "RESULTS.md").read_text()
    found = re.findall(
        r"^\| rule .*worst attack \|\n\|[-|]+\n((?:\|.*\n)+)", text, re.M
    )
    return [
        [
            [cell.strip(" `") for cell in line.split("|")[1:-1]]
            for line in table.split("\n")
            if line
        ]
        for table in found
    ]


def test_the_results_agree_with_the_advice():
    """Worst losses are computed again, and the advised rule has the smallest loss."""
    tables = tables_of_results()
    assert len(tables) == 2
    for table in tables:
        assert [cells[0] for cells in table] == list(ROWS)
        honest, losses = float(table[0][1]), {}
        for row, _, *attacked, worst in table:
            losses[row] = min(map(float, attacked)) - honest
            assert float(worst) == pytest.approx(losses[row], abs=0.11)  # rounding
        assert max(losses, key=losses.__getitem__) == "clip"
    text = (HOSTILE / "RESULTS.md").read_text()
    rows = re.findall(r"^\| `([\w-]+)` ((?:\| -[\d.]+ ){3})\| [-+]", text, re.M)
    by_seed = {row: [float(x) for x in re.findall(r"-[\d.]+", xs)] for row, xs in rows}
    assert [*by_seed] == list(ROWS)
    best = by_seed.pop("clip")
    for number, loss in enumerate(best):
        assert max(losses[number] for losses in by_seed.values()) < loss
    said = f"with each of three seeds: {-max(best):.1f} to {-min(best):.1f} points"
    assert said in text
