"""The averaging systems, the loop by hand, and the commands of their pages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values

SYSTEMS = ("demo", "fedsimclr", "fedae", "fedpr", "fedavg")
PAGES = ("README.md", *(f"{name}/README.md" for name in SYSTEMS[1:]))


@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("scale", ["cpu", "paper"])
def test_every_system_is_planned(plan, name, scale):
    words = () if name == "demo" else (f"scale={scale}",)
    steps = plan(EXAMPLES / name / "recipe.toml", *words)
    rounds = {step["round"] for step in of(steps, "average")}
    assert rounds == {*range(1, 1 + max(rounds))}
    assert len(of(steps, "train")) == 5 * len(rounds)
    # The untrained network is scored wherever the trained one is.
    for stage in ("knn", "linear"):
        assert {0, max(rounds)} <= {step["round"] for step in of(steps, stage)}


MEANS = (  # The recipe, its mean, and the stage whose uploads the server averages.
    *(
        (f"{name}/recipe.toml", "average", "train")
        for name in (*SYSTEMS, "fedca", "fcl")
    ),
    *((f"{name}/recipe.toml", "average", "train") for name in ("fedstyle", "fedusc")),
    ("fedusc/recipe.toml", "gather", "learn"),
    ("fedusc/joint.toml", "average", "learn"),
    ("fedusc/paper.toml", "average", "train"),
    ("fedusc/paper.toml row=pretext", "gather", "learn"),
    ("flesd/paper.toml row=fedavg", "average", "train"),
)


@pytest.mark.parametrize(("words", "mean", "train"), MEANS)
def test_every_mean_has_the_model_from_which_its_clients_started(
    plan, words, mean, train
):
    """Otherwise aggregate cannot compare the directions of updates."""
    recipe, *row = words.split()
    steps = plan(EXAMPLES / recipe, *row, "rounds=12")
    assert len(of(steps, mean)) >= 12
    for step in of(steps, mean):
        (parent,) = values(step["command"], "--parent")
        trained = [s for s in of(steps, train) if s["round"] == step["round"]]
        assert trained and all(parent in each["reads"] for each in trained)


def test_a_planned_round_names_the_client_that_sends_its_update_backwards(
    plan, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    recipe = EXAMPLES / "fedsimclr" / "recipe.toml"
    tiny = ("init=--width 0.02 --projector 8,4", "train=--epochs 3 --batch-size 32")
    steps = plan(recipe, *tiny, "clients=4", "rounds=1", "score=")
    for step in (s for s in steps if s["stage"] in ("partition", "init", "train")):
        assert run(*step["command"], "-q").code == 0
    (average,), upload = of(steps, "average"), Path("exp/r001/client_2.safetensors")
    assert run(*average["command"], "-q", "-o", "honest").err == ""
    parent = Path("exp/r000/global.safetensors")
    flip = ("attack", upload, "--kind", "flip", "--parent", parent)
    assert run(*flip, "-o", "flipped").code == 0
    Path("flipped").replace(upload)
    done = run(*average["command"], "-q")
    assert done.code == 0 and "degrees away from the others" in done.err
    assert f"warning: {upload}: the update of client 2" in done.err


def test_an_unknown_scale_is_refused(refused, tmp_path):
    recipe = EXAMPLES / "fedae" / "recipe.toml"
    words = ("plan", recipe, "scale=galaxy", f"out={tmp_path / 'exp'}")
    refused(tmp_path, 2, ["galaxy", "paper"], *words)


@needs_make
@pytest.mark.parametrize("page", PAGES)
def test_every_command_of_the_pages_is_planned(recorded, check_all, page):
    commands = [c for block in blocks(EXAMPLES / page) for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) >= 2
    check_all(commands)


def test_the_table_of_examples_names_what_is_there():
    page = (EXAMPLES / "README.md").read_text()
    named = set(re.findall(r"^\| \[(\S+)\]\(\1\)", page, re.M))
    shared = {"README.md", "averaging.toml"}
    assert named == {path.name for path in EXAMPLES.glob("[!.]*")} - shared
    lines = len((EXAMPLES / "plain_shell.sh").read_text().splitlines())
    assert f"in {lines} lines of shell" in page


def test_the_table_of_settings_has_every_one():
    from furlkit.recipes.read import DEFAULTS

    table = (EXAMPLES / "README.md").read_text().split("| setting |")[1]
    named = re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", table, re.M)))
    assert sorted(named) == sorted(DEFAULTS)


TINY = {
    "CLIENTS": "3", "ROUNDS": "2", "FRACTION": "0.67", "SEED": "3", "KNN": "--k 20",
    "INIT": "--width 0.02 --projector 8,4", "TRAIN": "--epochs 1",
}  # fmt: skip


def results(folder: Path) -> dict[str, bytes]:
    """The files of a run whose bytes must not depend on how it was run."""
    found = (
        path for end in ("safetensors", "json") for path in folder.rglob(f"*.{end}")
    )
    named = {str(path.relative_to(folder)): path.read_bytes() for path in found}
    return {k: v for k, v in named.items() if "r000/knn" not in k}


def test_the_loop_by_hand_gives_the_bytes_of_the_recipe(
    plan, run, environment, tmp_path, monkeypatch
):
    """The recipe scores the untrained model too."""
    settings = [f"{key.lower()}={value}" for key, value in TINY.items()]
    recipe = EXAMPLES / "fedsimclr" / "recipe.toml"
    for folder in ("hand", "recipe"):
        (tmp_path / folder).mkdir()
    monkeypatch.chdir(tmp_path / "recipe")
    for step in plan(recipe, *settings, "score="):
        if step["stage"] != "linear":
            assert run(*step["command"], "-q").code == 0
    # A part of it is there: it goes on from what it finds.
    monkeypatch.chdir(tmp_path / "hand")
    Path("exp/r000").mkdir(parents=True)
    for name in ("partition", "r000/global"):
        path = Path(f"exp/{name}.safetensors")
        path.write_bytes((tmp_path / "recipe" / path).read_bytes())
    ours = {**environment, **TINY, "FURLKIT": f"{sys.executable} -m furlkit"}
    command = ["sh", str(EXAMPLES / "plain_shell.sh")]
    done = subprocess.run(command, env=ours, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = results(Path("exp"))
    assert found == results(tmp_path / "recipe" / "exp")
    assert len(found) == 1 + 3 + 2 * 2 + 2


@needs_make
def test_help_lists_every_target():
    done = subprocess.run(["make"], cwd=EXAMPLES.parent, capture_output=True, text=True)
    listed = re.findall(r"^make (\S+)  +\S", done.stdout, re.MULTILINE)
    assert listed == [
        *("help", "demo", "methods", "test", "test-slow", "test-gpu"),
        *(
            "test-browser",
            "test-slurm",
            "test-flower",
            "golden",
            "lint",
            "bench",
            "clean",
        ),
    ]
