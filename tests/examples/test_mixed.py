"""The recipe that mixes three systems: run whole, and what of it may leave a client."""

import json
from pathlib import Path

import pytest

from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.private import read_private
from furlkit.weights import parts_of
from tests.examples.conftest import EXAMPLES, blocks, needs_make, of
from tests.helpers import epoch_losses

MIXED = EXAMPLES / "mixed"
TINY = (
    "clients=2", "rounds=2", "init=--width 0.02 --projector 8,4", "knn=--k 20",
    "style=--epochs 1 --projector 8,4", "train=--epochs 1 --dictionary-size 64",
    "distill=--epochs 1 --anchors 64", "personal=--epochs 1 --probes 1",
)  # fmt: skip


def test_infusion_a_dictionary_and_distillation_run_together(
    plan, run, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    steps = plan(MIXED / "recipe.toml", "out=exp", *TINY)
    for step in steps:
        done = run(*step["command"], "-q")
        assert done.code == 0, done.err
    first, second = (
        epoch_losses(Path(f"exp/r00{n}/client_0.safetensors"))[0] for n in "12"
    )
    assert first.keys() == second.keys() == {"simclr", "infusion"}
    trained = Container(Path("exp/r002/client_1.safetensors")).header.inputs
    assert {"dictionary", "private"} <= trained.keys()
    kept = parts_of(read_private(Path("exp/r002/private_0.safetensors"), 0).tensors)
    assert {"generator", "style.encoder"} <= set(kept)
    server = read_checkpoint(Path("exp/r002/global.safetensors"))
    assert (server.header.stage, server.facts.round) == ("distill", 2)
    assert set(parts_of(server.tensors)) == {"encoder", "projector"}
    found = json.loads(Path("exp/r002/personal.json").read_text())
    assert found["options"]["generator"] == "trained" and len(found["clients"]) == 2
    # The server reads rows of clients and no model of theirs.
    pooled = of(steps, "ensemble") + of(steps, "pool")
    read = {word for step in pooled for word in step["command"] if "/r00" in word}
    assert read and not any("client_" in path or "private" in path for path in read)


@needs_make
def test_every_command_of_the_page_is_planned(recorded, check_all):
    commands = [c for block in blocks(MIXED / "README.md") for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) == 2
    check_all(commands)


@pytest.mark.parametrize(
    "objective, flag, words",
    [
        ("simsiam", ("--dictionary", "d"), ("negatives", "simclr or moco")),
        ("barlow", ("--features-out", "f"), ("negatives", "simclr or moco")),
        ("rotation", ("--neighbours", "2"), ("z", "simclr")),
        ("moco", ("--dictionary-positive", "own", "--dictionary", "d"), ("positives", "simclr")),
        ("rotation", ("--infusion", "1"), ("two views", "barlow")),
    ],
)  # fmt: skip
def test_a_flag_that_does_not_fit_another_system_s_objective_says_why(
    tmp_path, refused, objective, flag, words
):
    known = ("local-train", "p", "g", "--data", "digits", "--client", 0)
    line = (*known, "--objective", objective, *flag, "-o", tmp_path / "c")
    refused(tmp_path, 2, (flag[0], objective, *words), *line)
