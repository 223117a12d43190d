"""A command on the CPU and on the device: equal results, no waiting, few copies."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from furlkit import catalogue
from tests.device import NAME, on_device
from tests.helpers import epochs, furlkit, save_digits

DATA = ("--data", "d.npz")
FAST = (
    *DATA, "--epochs", 1, "--batch-size", 32, "--optimiser", "sgd", "--lr", 0.001,
)  # fmt: skip
CLIENTS = ("--client", "0-1")
MOST_COPIES = 2  # In a step: the draws of the augmentation, and one besides.
# The CPU and other devices crop images by different formulas.
TOLERANCE = {"rtol": 1e-3, "atol": 2e-3}


@pytest.fixture
def here():
    with on_device() as counter:
        yield counter


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A round of two clients with all heads, and every file that clients exchange."""
    path = tmp_path_factory.mktemp("world")
    save_digits(path, train=160, test=64)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        for words in _commands():
            assert furlkit(*words) == 0, words
    return path


def _commands():
    heads = [word for head in catalogue.HEADS for word in ("--head", head)]
    small = ("--width", 0.05, "--projector", "16,8", "--predictor", "8,8", *heads)
    yield "partition", *DATA, "--clients", 2, "-o", "p"
    yield "init", *DATA, *small, "-o", "g0"
    train = ("local-train", "p", "g0", *FAST, *CLIENTS)
    shared = ("--features-out", "r_{client}", "--dictionary-size", 32)
    yield *train, *shared, "--private-out", "k_{client}", "-o", "c_{client}"
    yield "aggregate", "c_0", "c_1", "-o", "g1"
    yield "aggregate", "r_0", "r_1", "--rule", "dictionary", "-o", "dictionary"
    centroids = ("--centroids-out", "z_{client}", "-o", "m_{client}")
    yield *train, *centroids
    yield "aggregate", "z_0", "z_1", "--rule", "centroids", "--centroids", 4, "-o", "z"
    yield "pretrain-align", "g0", *FAST, "--targets-out", "targets", "-o", "align"
    style = ("--projector", "16,8", "-o", "style_{client}")
    yield "pretrain-style", "p", "g0", *FAST, *CLIENTS, *style
    kept = ("--private", "style_{client}", "--private-out", "infused_{client}")
    yield *train, *kept, "--infusion", 0.5, "-o", "i_{client}"
    yield *train, "--objective", "fedmatch", "-o", "f_{client}"
    yield "aggregate", "f_0", "f_1", "-o", "f"
    for rule, form, *share in (
        ("ensemble", "rows"), ("ensemble", "top", "--similarity", "--top", 20),
        ("ensemble", "matrix", "--similarity"),
        ("probabilities", "probabilities", "--share", "probabilities"),
    ):  # fmt: skip
        for client in (0, 1):
            output = ("-o", f"{form}_{client}")
            yield "embed", f"c_{client}", *DATA, *share, *output
        matrix = ("--matrix",) * (form == "matrix")
        rows = (f"{form}_0", f"{form}_1")
        yield "aggregate", *rows, "--rule", rule, *matrix, "-o", form


@pytest.fixture
def world(folder, monkeypatch):
    """The files of a round, in the current folder."""
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def both(world, here, tmp_path):
    """Run a command on the CPU and on the device, and compare all files of both.

    A word "OUT/name" is a file that the command writes. Gives what the device counted.
    """

    def run(*words):
        for place in ("cpu", f"{NAME}:0"):
            own = tmp_path / place.partition(":")[0]
            own.mkdir()
            named = [str(word).replace("OUT/", f"{own}/") for word in words]
            assert furlkit(*named, "--device", place) == 0
        check_alike(tmp_path / "cpu", tmp_path / NAME)
        return here

    return run


@pytest.fixture
def trained(both, tmp_path):
    """The same for a command that trains and writes OUT/model: steps never wait."""

    def run(*words, reads=0, copies=MOST_COPIES):
        counter = both(*words, "-o", "OUT/model")
        steps = epochs(tmp_path / NAME / "model")[-1]["step"]
        assert sum(counter.reads.values()) <= reads * steps, counter.reads
        assert sum(counter.copies.values()) <= copies * steps, counter.copies
        return counter

    return run


def check_alike(one: Path, other: Path) -> None:
    """All files of two folders hold the same numbers, but for rounding."""
    names = sorted(path.name for path in one.iterdir())
    assert names and names == sorted(path.name for path in other.iterdir())
    for name in names:
        if name.endswith(".jsonl"):
            _check_journals(one / name, other / name)
        elif name.endswith(".json"):
            documents = (json.loads((path / name).read_text()) for path in (one, other))
            check_numbers(*documents, name)
        else:
            _check_tensors(load_file(one / name), load_file(other / name))


def _check_tensors(expected, found):
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        np.testing.assert_allclose(found[name], tensor, **TOLERANCE, err_msg=name)


def _check_journals(one: Path, other: Path) -> None:
    output = [
        path.with_name(path.name.removesuffix(".log.jsonl")) for path in (one, other)
    ]
    for a, b in zip(*map(epochs, output), strict=True):
        check_numbers(a["losses"], b["losses"], one.name)


def check_numbers(one, other, where) -> None:
    """Two JSON documents have the same numbers; words, as the device's name, may differ."""
    assert type(one) is type(other), where
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        one, other = one.items(), dict(other).items()
        for (key, a), (_, b) in zip(sorted(one), sorted(other), strict=True):
            check_numbers(a, b, f"{where}.{key}")
    elif isinstance(one, list):
        assert len(one) == len(other), where
        for place, (a, b) in enumerate(zip(one, other, strict=True)):
            check_numbers(a, b, f"{where}[{place}]")
    elif isinstance(one, int | float):
        assert math.isclose(one, other, rel_tol=1e-3, abs_tol=2e-3), (where, one, other)
