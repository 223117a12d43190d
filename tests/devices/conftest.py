"""A command on the CPU and on the device: equal results, no waiting, few copies."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from tests.device import NAME, on_device
from tests.helpers import epochs, furlkit

MOST_COPIES = 2  # In a step: the draws of the augmentation, and one besides.
# The CPU and other devices crop images by different formulas.
TOLERANCE = {"rtol": 1e-3, "atol": 2e-3}


@pytest.fixture
def here():
    with on_device() as counter:
        yield counter


@pytest.fixture
def round_of_files(exchanged, monkeypatch):
    """The files of a round, in the current folder."""
    monkeypatch.chdir(exchanged)
    return exchanged


@pytest.fixture
def both(round_of_files, tmp_path):
    """Run a command on the CPU and on the device, and compare all files of both.

    A word "OUT/name" is a file that the command writes. Gives what the device counted.
    """

    def run(*words):
        call(words, "cpu")
        with on_device() as counter:
            call(words, f"{NAME}:0")
        check_alike(tmp_path / "cpu", tmp_path / NAME)
        return counter

    def call(words, place):
        own = tmp_path / place.partition(":")[0]
        own.mkdir()
        named = [str(word).replace("OUT/", f"{own}/") for word in words]
        assert furlkit(*named, "--device", place) == 0

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


def words_of(cases: dict, name: str, new: str):
    """Words of a method of the catalogue; a method without words fails by name."""
    if name not in cases:
        pytest.fail(
            f"{name}: {new} is new in the catalogue, and has no case for a device"
        )
    return cases[name]


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
