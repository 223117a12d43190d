"""The recipe of FedAdam: the server's state passes from round to round."""

import shutil
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from furlkit.files.container.read import Container
from tests.examples.conftest import EXAMPLES, needs_make, of
from tests.helpers import contents

RECIPE = EXAMPLES / "fedadam" / "recipe.toml"
TINY = (
    "clients=2", "rounds=3", "score=", "init=--width 0.02 --projector 8,4",
    "train=--epochs 1", "out=exp",
)  # fmt: skip


def test_the_state_of_a_round_is_read_in_the_next(plan):
    averages = of(plan(RECIPE, *TINY), "average")
    read = [[b for a, b in pairwise(s["command"]) if a == "--state"] for s in averages]
    assert read == [
        [],
        ["exp/r001/server.safetensors"],
        ["exp/r002/server.safetensors"],
    ]
    for number, step in enumerate(averages, 1):
        state, model = (
            f"exp/r{number:03}/{n}.safetensors" for n in ("server", "global")
        )
        assert step["outputs"] == [model]  # The make target comes last.
        assert sorted(step["writes"]) == [model, state]
    assert "exp/r001/server.safetensors" in averages[1]["reads"]


@pytest.mark.parametrize(
    ("optimiser", "step"), [("fedadam", "1e-3"), ("fedyogi", "1e-3"), ("fedavgm", "1")]
)
def test_every_optimiser_is_planned(plan, optimiser, step):
    words = (f"optimiser={optimiser}", f"average=--lr {step}")
    averages = of(plan(RECIPE, *TINY, *words), "average")
    assert len(averages) == 3
    for each in averages:
        values = dict(pairwise(each["command"]))
        assert (values["--rule"], values["--lr"]) == (optimiser, step)


def test_three_rounds_of_the_plan_and_a_ledger(plan, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for step in plan(RECIPE, *TINY):
        if step["stage"] not in ("knn", "linear"):
            assert run(*step["command"], "-q").code == 0
    header = Container(Path("exp/r003/global.safetensors")).header
    last = Container(Path("exp/r002/server.safetensors"))
    assert header.inputs["state"] == last.content
    assert header.options["rule"] == "fedadam" and header.options["lr"] == 1e-3
    # The state does not travel.
    kinds = run("ledger", "exp", "--format", "csv").out
    assert "checkpoint" in kinds and "server" not in kinds


@pytest.mark.slow
@needs_make
def test_make_ends_with_the_same_bytes_after_a_state_is_lost(
    run, environment, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    assert run("plan", RECIPE, *TINY, "knn=--k 20", "-o", "run.mk").code == 0
    command = ["make", "-f", "run.mk", f"FURLKIT={sys.executable} -m furlkit"]
    subprocess.run(command, env=environment, check=True, capture_output=True)
    before = states_and_models(tmp_path / "exp")
    for name in ("r001/server", "r003/global"):
        (tmp_path / f"exp/{name}.safetensors").unlink()
    shutil.rmtree(tmp_path / "exp" / "r002")
    subprocess.run(command, env=environment, check=True, capture_output=True)
    assert states_and_models(tmp_path / "exp") == before


def states_and_models(folder: Path) -> dict[str, bytes]:
    found = contents(folder)
    return {k: v for k, v in found.items() if k.endswith(".safetensors")}
