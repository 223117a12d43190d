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
from furlkit.inputs.bodies import sketch_of_parent
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


def sketch_all(path):
    opened = Container(path)
    sketch_of_parent(opened, [entry.name for entry in opened.entries])


@pytest.mark.parametrize(
    "read", [lambda path: Container(path).tensors(), read_plain, sketch_all]
)
def test_openings_do_not_grow_with_the_number_of_tensors(tmp_path, read):
    counts = []
    for number in (1, 40):
        path = tmp_path / f"{number}.safetensors"
        container.write(path, numbered(number), Header("private", "t", {}, 0, {}, {}))
        counts.append(opened_by(read, path))
    assert counts[0] == counts[1] > 0


@pytest.mark.parametrize("clients", ["0", "0-1"])
def test_local_train_reads_a_private_file_once(tmp_path, clients):
    files = round_0(tmp_path, ("--clients", 2))
    words = ("local-train", files / "p.st", files / "g.st", "--data", "digits")
    fast = ("--client", "0-1", "--epochs", 1, "--batch-size", 512, "--update", "own")
    out = ("--private-out", files / "v{client}", "-o", files / "u{client}")
    assert furlkit(*words, *fast, *out) == 0
    assert furlkit("aggregate", files / "u0", files / "u1", "-o", files / "g1") == 0
    once = opened_by(read_private, files / "v0")
    words = ("local-train", files / "p.st", files / "g1", "--data", "digits", *fast)
    private = ("--private", files / "v{client}", "--private-out", files / "w{client}")
    with openings(files / "v0") as found:
        out = ("--client", clients, "-o", files / "x{client}")
        assert furlkit(*words, *private, *out) == 0
    assert len(found) == once > 0


def test_aggregate_only_glances_at_files_of_other_rounds(world):
    """The search for another sum of the round reads the first bytes of a neighbour."""
    neighbour = world.folder / "neighbour.safetensors"
    neighbour.write_bytes(world.partition.read_bytes())
    clients = ("--parent", world.model, *world.clients)
    with openings(neighbour) as found:
        output = world.folder / "mean.safetensors"
        assert furlkit("aggregate", *clients, "-o", output) == 0
    assert len(found) == 1
