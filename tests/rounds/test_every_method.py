"""Two rounds of every objective and update of the catalogue, and their scores."""

import json

import numpy as np
import pytest

from furlkit import catalogue
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.private import read_private
from furlkit.weights import divide, part_of, within
from tests.helpers import furlkit

DIGITS = ("--data", "digits")
WIDTHS = ("--width", 0.1, "--projector", "16,8", "--predictor", "8,8")
FAST = (*DIGITS, "--epochs", 1, "--batch-size", 96, "--client", "0-2")
TARGET = {"target.encoder", "target.projector"}
MORE = {"cluster": ("--mine-layer", "h")}  # The model has no projector.
CARRIED = {
    "byol": TARGET,
    "orchestra": TARGET,
    "moco": {*TARGET, "queue"},
    "swav": {"queue"},
    "nnclr": {"queue"},
    "dino": {*TARGET, "target.prototypes", "centre"},
}


@pytest.fixture(scope="module")
def partition(tmp_path_factory):
    path = tmp_path_factory.mktemp("methods") / "p.st"
    assert furlkit("partition", *DIGITS, "--clients", 3, "-o", path) == 0
    return path


@pytest.fixture
def rounds(partition, tmp_path):
    """Run two rounds with private files; gives the folder."""

    def run(objective, *more):
        choice = ("--objective", objective)
        assert furlkit("init", *DIGITS, *WIDTHS, *choice, "-o", tmp_path / "g0") == 0
        for number in (1, 2):
            kept = ("--private-out", tmp_path / f"k{number}_{{client}}")
            if number == 2:
                kept += ("--private", tmp_path / "k1_{client}")
            out = ("-o", tmp_path / f"c{number}_{{client}}")
            model = tmp_path / f"g{number - 1}"
            command = ("local-train", partition, model, *choice, *FAST, *more, *kept)
            assert furlkit(*command, *out) == 0
            clients = [tmp_path / f"c{number}_{k}" for k in range(3)]
            assert furlkit("aggregate", *clients, "-o", tmp_path / f"g{number}") == 0
        return tmp_path

    return run


def scores(folder, model="g2"):
    found = {}
    for protocol, more in (("knn", ()), ("linear", ("--epochs", 20, "--lr", 0.01))):
        output = folder / f"{protocol}.json"
        words = ("evaluate", protocol, folder / model, *DIGITS, *more, "-o", output)
        assert furlkit(*words) == 0
        found[protocol] = json.loads(output.read_text())["accuracy"]
    return found


@pytest.mark.parametrize("name", catalogue.OBJECTIVES)
def test_an_objective_trains_is_averaged_and_scored(rounds, name):
    folder = rounds(name, *MORE.get(name, ()))
    objective = catalogue.OBJECTIVES[name]
    parts = ["encoder", *objective.head_names]
    for number in (0, 1):
        before = read_checkpoint(folder / f"g{number}").tensors
        upload = read_checkpoint(folder / f"c{number + 1}_0")
        more = [part for part in upload.facts.parts if within(part, objective.sends)]
        assert sorted(upload.facts.parts) == sorted([*parts, *more])
        for part in parts:
            own = {k: v for k, v in upload.tensors.items() if part_of(k) == part}
            assert any(not np.array_equal(v, before[k]) for k, v in own.items()), part
    private = read_private(folder / "k2_0", 0)
    kept = divide(private.tensors, [*parts, *objective.sends])[1]
    assert {part_of(k) for k in kept} == CARRIED.get(name, set())
    assert min(scores(folder).values()) > 0.5


@pytest.mark.parametrize(
    "name", [u for u in catalogue.UPDATES if u not in ("keep", "continue")]
)
def test_an_update_is_what_clients_start_from(rounds, name):
    objective = "byol" if catalogue.UPDATES[name].heads else "simclr"
    folder = rounds(objective, "--update", name)
    assert scores(folder)["linear"] > 0.5


@pytest.mark.parametrize(
    "name", [n for n, o in catalogue.OBJECTIVES.items() if "projector" in o.head_names]
)
def test_a_collapse_is_reported(tmp_path, capsys, name):
    """Images that are all the same leave the representation nothing to tell apart."""
    np.savez(tmp_path / "same.npz", images=np.full((64, 8, 8, 1), 99, np.uint8))
    data, choice = ("--data", tmp_path / "same.npz"), ("--objective", name)
    still = ("--crop-scale", "1,1", "--crop-ratio", "1,1", "--jitter-probability", 0)
    words = ("local-train", tmp_path / "p", tmp_path / "g", *choice, "--client", 0)
    assert furlkit("partition", *data, "--clients", 2, "-o", tmp_path / "p") == 0
    assert furlkit("init", *data, *WIDTHS, *choice, "-o", tmp_path / "g") == 0
    assert furlkit(*words, *data, *still, "--epochs", 1, "-o", tmp_path / "c") == 0
    assert "collapsed" in capsys.readouterr().err
