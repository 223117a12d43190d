"""[inputs]: files that lie outside a run, as those of another run."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.recipes.conftest import AVERAGING

SCORED = """
extends = "recipe.toml"
[settings]
from = "exp"
out = "scored"
[inputs]
global = "{from}/r{round}/global.safetensors"
upload = "{from}/r{round}/client_{client}.safetensors"
[stages]
partition = ""
init = ""
train = ""
average = ""
knn = { run = "evaluate knn {global} --data {data} -o {knn}", rounds = "last" }
own = { run = "evaluate knn {upload} --data {data} -o {own}", rounds = "last" }
drift = "evaluate drift {upload@final*} --data {data} -o {drift}"
[files]
own = "r{round}/knn_{client}.json"
"""


@pytest.fixture
def scored(recipe) -> Path:
    """A recipe that scores the models of another recipe's run."""
    recipe()
    return recipe(SCORED, "scored.toml")


def test_inputs_are_read_where_they_lie(scored, plan):
    steps = plan(scored, "clients=2")
    assert [(s["stage"], s["reads"]) for s in steps] == [
        ("knn", ["exp/r002/global.safetensors"]),
        ("own", ["exp/r002/client_0.safetensors"]),
        ("own", ["exp/r002/client_1.safetensors"]),
        ("drift", [f"exp/r002/client_{k}.safetensors" for k in (0, 1)]),
    ]
    assert steps[2]["command"][-2:] == ["-o", "scored/r002/knn_1.json"]
    # A command waits for its inputs as for files of its own run.
    assert all(set(step["reads"]) <= set(step["after"]) for step in steps)


def test_another_folder_of_inputs_makes_their_readers_stale(scored, run):
    assert run("plan", scored, "-o", "run.mk").code == 0
    done = run("plan", scored, "from=other", "-o", "run.mk")
    lines = done.err.splitlines()
    assert [line.split(" changes")[0] for line in lines] == [
        f"warning: scored: {stage}" for stage in ("knn", "own", "drift")
    ]
    assert "exp/r{round}/global" in lines[0] and "other/r{round}/global" in lines[0]
    assert run("plan", scored, "from=other", "-o", "run.mk").err == ""


def test_status_knows_a_run_with_inputs(scored, run):
    """It has settings of stages that are gone, too."""
    run("plan", scored, "clients=1", "-o", "run.mk")
    paths = ["exp/r002/global.safetensors", "scored/r002/knn.json"]
    for age, path in zip((1000, 500), paths, strict=True):
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        Path(path).touch()
        os.utime(path, (2e9 - age, 2e9 - age))

    def stale() -> list[str]:
        found = json.loads(run("status", "scored", "--json").out)
        return found["stale"]

    assert stale() == []
    os.utime(paths[0], (2e9, 2e9))
    assert len(stale()) == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_make_names_an_input_that_is_missing(scored, run):
    assert run("plan", scored, "clients=1", "-o", "run.mk").code == 0
    command = ["make", "-f", "run.mk", f"FURLKIT={sys.executable} -m furlkit"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2 and "exp/r002/global.safetensors" in done.stderr


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f'{AVERAGING}\n[inputs]\nupload = "a"\n', "upload"),
        (f'{AVERAGING}\n[inputs]\nunused = "a"\n', "unused"),
        (f"{AVERAGING}\n[inputs]\nunused = 3\n", "unused"),
        (f'{AVERAGING}\n[inputs]\ndata = "a"\n', "data"),
    ],
)
def test_wrong_inputs_are_refused(recipe, refused, text, word):
    path = recipe(text)
    refused(Path.cwd(), 65, [path, word], "plan", path)


def test_options_of_a_stage_that_is_gone_are_left_out(recipe, plan):
    recipe(f'{AVERAGING}\n[data.digits]\ntrain = "--epochs 1"\n')
    steps = plan(recipe(SCORED, "scored.toml"), "clients=1")
    assert steps == plan("scored.toml", "clients=1", "train=--crop-scale 0.4,1")
    assert not any("--epochs" in step["command"] for step in steps)
