"""evaluate negatives: from a partition to a file, and to a figure of several."""

import json

import numpy as np
import pytest

from tests.helpers import furlkit

SCHEME = ("--scheme", "classes", "--classes-per-client", 2)
KINDS = ("local", "fused", "remote")


@pytest.fixture
def data(tmp_path):
    """Ten classes of 40 images each."""
    labels = np.repeat(np.arange(10), 40)
    path = tmp_path / "even.npz"
    np.savez(path, images=np.zeros((400, 8, 8, 1), np.uint8), labels=labels)
    return path


def measure(folder, data, clients, *scheme, negatives="fused"):
    name = f"{clients}_{negatives}"
    given = ("--data", data, "--clients", clients, *scheme, "-o", folder / "p")
    assert furlkit("partition", *given) == 0
    words = ("evaluate", "negatives", folder / "p", "--queue", 64)
    assert furlkit(*words, "--negatives", negatives, "-o", folder / name) == 0
    return folder / name


def test_five_clients_of_two_exclusive_classes(tmp_path, data):
    for kind, expected in zip(KINDS, (0.5, 0.1, 0.0), strict=True):
        path = measure(tmp_path, data, 5, *SCHEME, negatives=kind)
        found = json.loads(path.read_text())
        assert found["false_negative_ratio"] == pytest.approx(expected)
        assert found["equation"] == pytest.approx(expected)
        every = dict(zip(KINDS, (0.5, 0.1, 0.0), strict=True))
        assert found["measured"] == pytest.approx(every)
        assert found["rows"] == {"own": 64, "shared": 64}


def test_rows_of_a_dictionary_are_divided_among_the_clients(tmp_path, data):
    measure(tmp_path, data, 5, *SCHEME)
    words = ("evaluate", "negatives", tmp_path / "p", "--queue", 64)
    assert furlkit(*words, "--dictionary-size", 80, "-o", tmp_path / "n") == 0
    found = json.loads((tmp_path / "n").read_text())
    assert found["rows"] == {"own": 64, "shared": 16}
    assert found["false_negative_ratio"] == pytest.approx(0.5 * 64 / (64 + 4 * 16))


def test_a_figure_by_number_of_clients(tmp_path, data, run):
    series = []
    for clients in (2, 5):
        scheme = SCHEME if clients == 5 else (*SCHEME[:-1], 5)
        for kind in KINDS:
            path = measure(tmp_path, data, clients, *scheme, negatives=kind)
            series += ["--series", f"{clients} clients:{kind}={path}"]
    words = ("plot", "bars", "--value", "false_negative_ratio", *series)
    done = run(*words, "-o", tmp_path / "n.png")
    assert done.code == 0 and (tmp_path / "n.png").stat().st_size > 0
    assert "5 clients fused 0.1" in done.out and "2 clients remote 0" in done.out


def test_the_result_and_inspect_say_what_was_found(tmp_path, data, run):
    measure(tmp_path, data, 5, *SCHEME)
    words = (
        "evaluate",
        "negatives",
        tmp_path / "p",
        "-o",
        tmp_path / "n",
        "--queue",
        64,
    )
    done = run(*words)
    assert "0.1 (0.1 by FCL's equation)" in done.out
    said = json.loads(run("inspect", tmp_path / "n", "--json").out)["summary"]
    assert "0.5 local" in said and "0 remote" in said and "5 clients" in said
    before = (tmp_path / "n").read_bytes()
    assert run(*words, "--dry-run").out.startswith("would measure")
    assert run(*words).code == 0 and (tmp_path / "n").read_bytes() == before


def test_a_partition_without_labels_is_refused(tmp_path, refused):
    np.savez(tmp_path / "d.npz", images=np.zeros((9, 8, 8, 1), np.uint8))
    given = ("--data", tmp_path / "d.npz", "--clients", 2, "-o", tmp_path / "p")
    assert furlkit("partition", *given) == 0
    words = ("evaluate", "negatives", tmp_path / "p", "-o", tmp_path / "n")
    refused(tmp_path, 65, [tmp_path / "p", "labels"], *words)
