"""How often files are opened, as Python's audit events tell."""

import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from furlkit.files.container import write as container
from furlkit.files.container.header import Header
from furlkit.files.container.read import Container, read_plain
from furlkit.files.private import read_private
from tests.helpers import furlkit, round_0

_opened: list[str] | None = None


def _note(event, arguments):
    if _opened is not None and event == "open":
        _opened.append(str(arguments[0]))


@pytest.fixture(scope="module", autouse=True)
def _hook():
    sys.addaudithook(_note)  # It stays, and does nothing outside `openings`.


@contextmanager
def openings(path: Path):
    """The names of the events at which `path` is opened."""
    global _opened
    found: list[str] = []
    _opened = []
    try:
        yield found
        found += [name for name in _opened if name == str(path)]
    finally:
        _opened = None


def opened_by(read, path):
    with openings(path) as found:
        read(path)
    return len(found)


def numbered(count):
    return {f"t{k}": np.full(3, k, np.float32) for k in range(count)}


@pytest.mark.parametrize("read", [lambda path: Container(path).tensors(), read_plain])
def test_openings_do_not_grow_with_the_number_of_tensors(tmp_path, read):
    counts = []
    for number in (1, 40):
        path = tmp_path / f"{number}.safetensors"
        container.write(path, numbered(number), Header("private", "t", {}, 0, {}, {}))
        counts.append(opened_by(read, path))
    assert counts[0] == counts[1] > 0


def test_local_train_reads_a_private_file_once(tmp_path):
    world = round_0(tmp_path)
    words = ("local-train", world / "p.st", world / "g.st", "--data", "digits")
    fast = ("--client", 0, "--epochs", 1, "--batch-size", 256, "--update", "own")
    out = ("--private-out", tmp_path / "v0", "-o", tmp_path / "u0")
    assert furlkit(*words, *fast, *out) == 0
    assert furlkit("aggregate", tmp_path / "u0", "-o", tmp_path / "g1") == 0
    once = opened_by(read_private, tmp_path / "v0")
    words = ("local-train", world / "p.st", tmp_path / "g1", "--data", "digits")
    files = ("--private", tmp_path / "v0", "--private-out", tmp_path / "v1")
    with openings(tmp_path / "v0") as found:
        assert furlkit(*words, *fast, *files, "-o", tmp_path / "u1") == 0
    assert len(found) == once > 0
