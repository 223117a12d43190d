"""examples/fcl: its recipe, the commands of its page, and what leaves a client."""

import json

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.private import read_private
from furlkit.weights import parts_of
from tests.examples.conftest import EXAMPLES, blocks, needs_make, of, values
from tests.helpers import furlkit

FCL = EXAMPLES / "fcl"
SYSTEMS = ("fcl-fusion", "fcl-remote", "fcl")


def test_the_recipe_has_25_lines_at_most():
    assert len((FCL / "recipe.toml").read_text().splitlines()) <= 25


def test_files_pass_from_round_to_round(plan):
    steps = plan(FCL / "recipe.toml")
    assert len(of(steps, "train")) == 500 and len(of(steps, "average")) == 100
    for step in of(steps, "train"):
        (client,), number, command = step["clients"], step["round"], step["command"]
        before = f"exp/r{number - 1:03}"
        given = {"--dictionary": "dictionary", "--private": f"private_{client}"}
        for flag, name in given.items():
            expected = [f"{before}/{name}.safetensors"] if number > 1 else []
            assert values(command, flag) == expected
        assert values(command, "--participants") == ["5"]
        assert values(command, "--preset") == ["fcl"]
    (first, *_) = of(steps, "pool")
    assert first["reads"] == [f"exp/r001/features_{c}.safetensors" for c in range(5)]
    assert [step["round"] for step in of(steps, "linear")] == [0, 100]


@needs_make
def test_every_command_of_the_page_is_accepted(recorded, check_all):
    commands = [c for block in blocks(FCL / "README.md") for c in recorded(block)]
    assert sum(command[0] == "plan" for command in commands) == 4
    assert len(values(commands[-1], "--series")) == 12
    check_all(commands)


def test_false_negatives_by_number_of_clients_and_classes(plan, run, tmp_path):
    """Digits have 142 to 147 images of each class, so that ratios are nearly exact."""
    found = {}
    for row in ("5x2", "5x4", "10x2"):
        for step in plan(FCL / "negatives.toml", f"row={row}", f"out={tmp_path / row}"):
            assert run(*step["command"], "-q").code == 0
        document = json.loads((tmp_path / row / "fused.json").read_text())
        found[row] = [document["measured"][k] for k in ("local", "fused", "remote")]
    assert found["5x2"] == pytest.approx([0.5, 0.1, 0], abs=0.01)
    assert found["5x4"] == pytest.approx([0.25, 0.1, 0.25 / 4], abs=0.01)
    assert found["10x2"] == pytest.approx([0.5, 0.1, 0.5 / 9], abs=0.01)


SMALL = (
    "data=digits", "clients=3", "rounds=2",
    "init=--encoder cnn5 --width 0.05 --projector 16,8",
    "train=--epochs 2 --batch-size 60 --queue 50 --schedule constant "
    "--schedule-rounds 1 --dictionary-size 60",
)  # fmt: skip


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Where the run of each preset lies, which the first test that needs it makes."""
    return {name: tmp_path_factory.mktemp(name) / "exp" for name in SYSTEMS}


@pytest.fixture
def carried_out(folders, plan, run):
    """The folder of two small rounds with a preset."""

    def call(preset):
        out = folders[preset]
        if not out.exists():
            steps = plan(FCL / "recipe.toml", f"preset={preset}", f"out={out}", *SMALL)
            for step in (s for s in steps if s["stage"] != "linear"):
                done = run(*step["command"], "-q")
                assert done.code == 0, done.err
        return out

    return call


@pytest.mark.parametrize("preset", SYSTEMS)
def test_what_leaves_a_client_is_its_two_networks_and_unit_rows(carried_out, preset):
    folder = carried_out(preset) / "r002"
    dataset = Container(folder.parent / "partition.safetensors").header.facts["dataset"]
    for client in range(3):
        upload = folder / f"client_{client}.safetensors"
        shared = folder / f"features_{client}.safetensors"
        parts = ["encoder", "projector", "target.encoder", "target.projector"]
        assert parts_of(load_file(upload)) == parts
        tensors = load_file(shared)
        assert tensors.keys() == {"rows", "index"}
        assert tensors["index"].tolist() == list(range(20))
        np.testing.assert_allclose(
            np.linalg.norm(tensors["rows"], axis=1), 1, rtol=1e-6
        )
        private = read_private(folder / f"private_{client}.safetensors", client)
        keys = private.tensors["queue.rows"]
        assert keys.shape == (50, 8) and np.abs(keys).sum() > 0
        for path in (upload, shared):
            raw = path.read_bytes()
            assert not any(key.tobytes() in raw for key in keys)
            for secret in (dataset["images"], dataset["labels"]):
                assert secret.encode() not in raw
        header = Container(shared).header
        assert header.facts["share_rows"] == "instahide"
        assert header.facts.keys() == {"layer", "dataset", "part", "client", "round",
                                       "examples", "parent", "share_rows"}  # fmt: skip


@pytest.mark.parametrize("preset", SYSTEMS)
def test_no_shared_row_is_that_of_a_clean_image(carried_out, preset, forge, tmp_path):
    """Neither by f_q nor by f_k; plain rows, of the same images, are found by it."""
    folder = carried_out(preset)
    rows = read_features(folder / "r002" / "features_0.safetensors").rows
    upload = folder / "r002" / "client_0.safetensors"
    slow = {k: v for k, v in load_file(upload).items() if k.startswith("target.")}
    (tmp_path / "f_q").write_bytes(upload.read_bytes())
    (tmp_path / "f_k").write_bytes(upload.read_bytes())
    forge(tmp_path / "f_k", {k.removeprefix("target."): v for k, v in slow.items()})
    for name in ("f_q", "f_k"):
        part = ("--partition", folder / "partition.safetensors", "--part", 0)
        words = ("embed", tmp_path / name, "--data", "digits", *part, "--layer", "z")
        assert furlkit(*words, "-o", tmp_path / "z") == 0
        z = read_features(tmp_path / "z").rows
        z /= np.linalg.norm(z, axis=1, keepdims=True)
        nearest = np.linalg.norm(rows[:, None] - z, axis=2).min(axis=1)
        assert nearest.min() > 1e-4


@pytest.mark.parametrize("preset", SYSTEMS)
def test_a_client_trains_with_the_rows_of_others_alone(carried_out, preset):
    folder = carried_out(preset)
    first, second = (
        Container(folder / f"r00{number}" / "client_0.safetensors").header
        for number in (1, 2)
    )
    bank = Container(folder / "r001" / "dictionary.safetensors")
    assert bank.header.facts["owners"] == [[0, 20], [1, 20], [2, 20]]
    assert "dictionary" not in first.inputs and "leave-own-out" not in first.options
    assert second.inputs["dictionary"] == bank.content
    assert second.options["leave-own-out"] is True
    remote = "remote" if preset == "fcl-remote" else None
    assert (
        second.options.get("negatives") == remote and "negatives" not in first.options
    )
    assert second.options.get("neighbours") == (5 if preset == "fcl" else None)
