"""Files that aggregate --rule ensemble refuses, and what its messages name."""

import numpy as np
import pytest

from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, write_features

N, MADE = 12, Provenance("embed", {}, None, {"model": "a" * 64})
INDEX = np.arange(N) * 3
MARK = {"examples": 90, "images": "b" * 64, "labels": "c" * 64}
FILES = {"examples": 90, "images": None, "labels": "c" * 64, "files": "d" * 64}


@pytest.fixture
def upload(tmp_path):
    """A features file of a client, with other facts or tensors if given."""

    def write(client, mark=MARK, rows=None, index=INDEX, **words):
        if rows is None:
            rows = np.random.default_rng(client).standard_normal((N, 3))
        given = {"layer": "z", "part": "public", "client": client, "round": 2, **words}
        facts = FeatureFacts(dataset=mark, examples=len(index), **given)
        path = tmp_path / f"f{client}"
        write_features(path, rows.astype(np.float32), index, facts, MADE)
        return path

    return write


@pytest.fixture
def said(run, tmp_path):
    """The error message, which begins with the wrong file; nothing is written."""

    def call(*files, wrong=0):
        output = tmp_path / "e"
        done = run("aggregate", "--rule", "ensemble", *files, "-o", output)
        assert done.code == 65 and done.out == "" and not output.exists()
        assert (
            done.err.startswith(f"error: {files[wrong]}: ")
            and done.err.count("\n") == 1
        )
        return done.err.replace(str(tmp_path), "")

    return call


@pytest.mark.parametrize(
    "mark, difference",
    [
        ({**MARK, "examples": 91}, "91"),
        ({**MARK, "images": "e" * 64}, "other images"),
        ({**MARK, "labels": "e" * 64}, "other labels"),
        ({**MARK, "images": "e" * 64, "labels": "e" * 64}, "other images and labels"),
        ({"examples": 90}, "fingerprint"),
    ],
)
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_another_dataset(upload, said, mark, difference, odd):
    """The majority is right, whichever file is the odd one."""
    files = [upload(k, mark if k == odd else MARK) for k in range(3)]
    other = files[1 if odd == 0 else 0]
    message = said(*files, wrong=odd)
    assert other.name in message and difference in message


@pytest.mark.parametrize("marks", [(MARK, FILES), ({"examples": 90},) * 2])
def test_the_same_images_in_a_folder_and_packed(upload, run, tmp_path, marks):
    """Only fields that both fingerprints have are compared."""
    files = [upload(k, mark) for k, mark in enumerate(marks)]
    command = ("aggregate", "--rule", "ensemble", *files, "-o", tmp_path / "e")
    assert run(*command).code == 0


@pytest.mark.parametrize("examples", ["many", [1], None, 1.5, True])
def test_a_dataset_that_is_no_fingerprint(upload, said, examples):
    files = [upload(0, {"examples": examples}), upload(1)]
    message = said(*files)
    assert files[0].name in message and "dataset" in message


@pytest.mark.parametrize(
    "index, difference",
    [
        (INDEX[1:], "11 images"),
        (INDEX + 1, "12 of 12"),
        (np.where(INDEX == 9, 8, INDEX), "1 of 12"),
        (INDEX[[0, 1, 3, 2, *range(4, N)]], "row 2"),
    ],
)
def test_other_images_or_another_order(upload, said, index, difference):
    rows = np.ones((len(index), 3))
    files = [upload(0, rows=rows, index=index), upload(1), upload(2)]
    message = said(*files)
    assert difference in message and files[1].name in message


@pytest.mark.parametrize(
    "words, message",
    [
        ({"part": "all"}, "--part"),
        ({"part": "1"}, "client 1"),
        ({"layer": "h"}, "--layer"),
        ({"round": 1}, "round"),
    ],
)
def test_another_part_layer_or_round(upload, said, words, message):
    files = [upload(0, **words), upload(1), upload(2)]
    assert message in said(*files)


def test_rows_of_zeros(upload, said):
    rows = np.random.default_rng(0).standard_normal((N, 3))
    rows[[5, 9]] = 0
    files = [upload(4, rows=rows), upload(1)]
    message = said(*files)
    assert "zeros in 2 of" in message and "row 5" in message and "client 4" in message


def test_a_dictionary(upload, said):
    files = [upload(0, owners=[[0, N]]), upload(1)]
    message = said(*files)
    assert "dictionary" in message and "embed" in message
