"""Same inputs, options and seed give the same bytes, wherever and in any order."""

import itertools
import os
import random
import subprocess
import sys

import numpy as np
import pytest
import torch

from furlkit.errors import FurlkitError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.randomness import derive
from furlkit.stages.local_train import train as train_stage
from tests.helpers import NET, furlkit, round_0

FAST = ("--data", "digits", "--epochs", 1, "--batch-size", 32)


@pytest.fixture(scope="module")
def round_of_files(tmp_path_factory):
    return round_0(tmp_path_factory.mktemp("round_of_files"))


def train(round_of_files, folder, clients, *more):
    """Train into a folder and return the bytes of each client's file."""
    pattern = folder / "c{client}.safetensors"
    start = ("local-train", round_of_files / "p.st", round_of_files / "g.st", *FAST)
    assert furlkit(*start, "--client", clients, *more, "-o", pattern) == 0
    return {path.name: path.read_bytes() for path in folder.glob("*.safetensors")}


def test_together_in_another_order_or_one_at_a_time(round_of_files, tmp_path):
    together = train(round_of_files, tmp_path / "a", "0-2")
    shuffled = train(round_of_files, tmp_path / "b", "2,0,1")
    for client in (2, 1, 0):
        alone = train(round_of_files, tmp_path / "c", client)
    assert len(together) == 3 and together == shuffled == alone
    assert len(set(together.values())) == 3


def test_inputs_in_another_place_give_the_same_bytes(round_of_files, tmp_path):
    here = train(round_of_files, tmp_path / "a", 0)
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("p.st", "g.st"):
        (moved / name).write_bytes((round_of_files / name).read_bytes())
    assert train(moved, tmp_path / "b", 0) == here
    assert str(tmp_path).encode() not in here["c0.safetensors"]


def test_another_process_gives_the_same_bytes(round_of_files, tmp_path):
    here = train(round_of_files, tmp_path / "a", 0)["c0.safetensors"]
    output = tmp_path / "b" / "c0.safetensors"
    words = [
        "local-train",
        round_of_files / "p.st",
        round_of_files / "g.st",
        *FAST,
        "--client",
        0,
    ]
    words = [sys.executable, "-m", "furlkit", *words, "-q", "-o", output]
    environment = {**os.environ, "PYTHONHASHSEED": "77", "OMP_NUM_THREADS": "2"}
    done = subprocess.run(
        [str(word) for word in words], env=environment, capture_output=True, check=True
    )
    assert done.stderr == b"" and output.read_bytes() == here


def test_another_seed_gives_other_weights(round_of_files, tmp_path):
    for name, seed in (("a", 0), ("b", 1)):
        train(round_of_files, tmp_path / name, 0, "--seed", seed)
    one, other = (
        read_checkpoint(tmp_path / name / "c0.safetensors").tensors for name in "ab"
    )
    name = "encoder.conv3.weight"
    assert not np.array_equal(one[name], other[name])


def test_draws_depend_on_seed_round_and_client(round_of_files, tmp_path, monkeypatch):
    train(round_of_files, tmp_path, 0)
    following = tmp_path / "g1.st"
    assert furlkit("aggregate", tmp_path / "c0.safetensors", "-o", following) == 0
    purposes = []

    def stop(job, **_others):
        purposes.append(job.purpose)
        raise FurlkitError("enough")

    monkeypatch.setattr(train_stage, "run_jobs", stop)
    cases = itertools.product((round_of_files / "g.st", following), (0, 1), (0, 1))
    for model, client, seed in cases:
        words = ("--client", client, "--seed", seed, "-o", tmp_path / "x.st")
        assert (
            furlkit("local-train", round_of_files / "p.st", model, *FAST, *words) == 1
        )
    assert len({derive(*purpose) for purpose in purposes}) == 8


@pytest.mark.parametrize(
    "more",
    [
        ("--save-every", 0),
        ("-q",),
        ("-v",),
        ("--json",),
        ("--device", "cpu"),
    ],
)
def test_how_it_is_run_leaves_no_trace(round_of_files, tmp_path, more):
    usual = train(round_of_files, tmp_path / "a", 0)
    assert train(round_of_files, tmp_path / "b", 0, *more) == usual


def test_training_touches_no_global_generator(round_of_files, tmp_path):
    torch.manual_seed(11)
    numpys = np.random.get_state()[1].copy()  # noqa: NPY002
    before = torch.get_rng_state(), random.getstate()
    more = ("--blur", 0.5, "--solarise", 0.2, "--cutout", 2, "--randaugment", "2,9")
    train(round_of_files, tmp_path, 0, *more)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]
    assert (np.random.get_state()[1] == numpys).all()  # noqa: NPY002


def test_a_round_by_hand_twice(tmp_path):
    """Every stage of a round, in two folders: all files are the same."""
    for name in "ab":
        folder = tmp_path / name
        client, clients = folder / "c{client}.st", ["c0.st", "c1.st"]
        clients = clients if name == "a" else clients[::-1]
        p, g, g1 = folder / "p.st", folder / "g.st", folder / "g1.st"
        seed = ("--seed", 4)
        stages = [
            ("partition", "--data", "digits", *seed, "-o", p),
            ("init", "--data", "digits", *NET, *seed, "-o", g),
            ("local-train", p, g, *FAST, "--client", "0-1", *seed, "-o", client),
            ("aggregate", *(folder / c for c in clients), "-o", g1),
            ("embed", g1, "--data", "digits", "-o", folder / "h.st"),
            ("evaluate", "knn", g1, "--data", "digits", "-o", folder / "knn.json"),
            (
                "evaluate", "linear", g1, "--data", "digits", "--epochs", 2, *seed,
                "-o", folder / "linear.json",
            ),
            ("export", g1, "-o", folder / "encoder"),
            ("pack", "digits", "-o", folder / "d.safetensors"),
        ]  # fmt: skip
        assert [furlkit(*stage) for stage in stages] == [0] * len(stages)
    a, b = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*"))
            if path.is_file() and not path.name.endswith(".log.jsonl")
        }
        for name in "ab"
    )
    assert len(a) == 12 and a == b


def test_a_dry_run_of_every_stage_writes_nothing(round_of_files, tmp_path):
    p, g, client = round_of_files / "p.st", round_of_files / "g.st", tmp_path / "c.st"
    start = ("local-train", p, g, *FAST, "--client", 0)
    assert furlkit(*start, "-o", client) == 0
    before = {path: path.read_bytes() for path in tmp_path.rglob("*")}
    output = ("-o", tmp_path / "new", "--dry-run")
    stages = [
        ("partition", "--data", "digits", *output),
        ("init", "--data", "digits", *NET, *output),
        (*start, *output),
        ("aggregate", client, *output),
        ("embed", g, "--data", "digits", *output),
        ("evaluate", "knn", g, "--data", "digits", *output),
        ("evaluate", "linear", g, "--data", "digits", *output),
        ("export", g, *output),
        ("pack", "digits", *output),
    ]
    assert [furlkit(*stage) for stage in stages] == [0] * len(stages)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_seeds_are_read_by_every_stage_that_has_one(round_of_files, tmp_path, capsys):
    """Two seeds, two results; stages/evaluate/test_frozen.py tests the probe."""
    stages = [
        ("partition", "--data", "digits", "-o"),
        ("init", "--data", "digits", *NET, "-o"),
        (
            "local-train",
            round_of_files / "p.st",
            round_of_files / "g.st",
            *FAST,
            "--client",
            0,
            "-o",
        ),
    ]
    for number, stage in enumerate(stages):
        outputs = [tmp_path / f"{number}_{seed}.st" for seed in (0, 1)]
        for seed, output in enumerate(outputs):
            assert furlkit(*stage, output, "--seed", seed) == 0
        assert outputs[0].read_bytes() != outputs[1].read_bytes()
    capsys.readouterr()
    draws = []
    for seed in range(4):
        words = ("sample", "--clients", "0-19", "--fraction", 0.5, "--seed", seed)
        assert furlkit(*words) == 0
        draws.append(capsys.readouterr().out)
    assert all(one != other for one, other in itertools.combinations(draws, 2))
