"""Whole messages of aggregate --rule ensemble about files that do not belong together."""

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
    """A features file of a client, with other facts or tensors if wanted."""

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
    """What the command says of some files; it writes nothing."""

    def call(*files):
        output = tmp_path / "e"
        done = run("aggregate", "--rule", "ensemble", *files, "-o", output)
        assert done.code == 65 and done.out == "" and not output.exists()
        return done.err

    return call


@pytest.mark.parametrize(
    "mark, difference",
    [
        ({**MARK, "examples": 91}, "one has 91 examples, the other 90"),
        ({**MARK, "images": "e" * 64},
         "they have the same number of examples but other images"),
        ({**MARK, "labels": "e" * 64},
         "they have the same number of examples but other labels"),
        ({**MARK, "images": "e" * 64, "labels": "e" * 64},
         "they have the same number of examples but other images and labels"),
        ({"examples": 90},
         "they have no fingerprint in common, so they cannot be told apart"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("odd", [0, 1, 2])
def test_another_dataset(upload, said, mark, difference, odd):
    """The majority is right, wherever the odd one stands."""
    files = [upload(k, mark if k == odd else MARK) for k in range(3)]
    other = files[1 if odd == 0 else 0]
    assert said(*files) == (
        f"error: {files[odd]}: is of another dataset than {other}: {difference}; embed "
        "the same public images for every client\n"
    )


@pytest.mark.parametrize("marks", [(MARK, FILES), ({"examples": 90},) * 2])
def test_the_same_images_in_a_folder_and_packed(upload, run, tmp_path, marks):
    """What both fingerprints know is compared; where they are equal, nothing is."""
    files = [upload(k, mark) for k, mark in enumerate(marks)]
    command = ("aggregate", "--rule", "ensemble", *files, "-o", tmp_path / "e")
    assert run(*command).code == 0


@pytest.mark.parametrize("examples", ["many", [1], None, 1.5, True])
def test_a_dataset_that_is_no_fingerprint(upload, said, examples):
    files = [upload(0, {"examples": examples}), upload(1)]
    assert f"error: {files[0]}: does not say" in said(*files)


@pytest.mark.parametrize(
    "index, difference",
    [
        (INDEX[1:], "has 11 images, and there are 12 in"),
        (INDEX + 1, "has images, 12 of 12, that are not in"),
        (np.where(INDEX == 9, 8, INDEX), "has images, 1 of 12, that are not in"),
        (INDEX[[0, 1, 3, 2, *range(4, N)]], "has, from row 2 on, another order than"),
    ],
)
def test_other_images_or_another_order(upload, said, index, difference):
    rows = np.ones((len(index), 3))
    files = [upload(0, rows=rows, index=index), upload(1), upload(2)]
    assert said(*files) == (
        f"error: {files[0]}: {difference} {files[1]}; embed the same part of the same "
        "partition for every client\n"
    )


@pytest.mark.parametrize(
    "words, message",
    [
        ({"part": "all"}, "its part is all, the others have public; embed the same "
         "--part, the public one, for every client"),
        ({"part": "1"}, "is of client 1's own images, which the server does not have; "
         "embed the public ones, with --part public"),
        ({"layer": "h"},
         "its layer is h, the others have z; embed all with the same --layer"),
        ({"round": 1}, "its round is 1, the others have 2; embed that client's model of "
         "the same round, or leave it out"),
    ],
)  # fmt: skip
def test_another_part_layer_or_round(upload, said, words, message):
    files = [upload(0, **words), upload(1), upload(2)]
    assert said(*files) == f"error: {files[0]}: {message}\n"


def test_rows_of_zeros(upload, said):
    rows = np.random.default_rng(0).standard_normal((N, 3))
    rows[[5, 9]] = 0
    files = [upload(4, rows=rows), upload(1)]
    assert said(*files) == (
        f"error: {files[0]}: has zeros in 2 of its 12 rows, row 5 first, which are like "
        "nothing; the model of client 4 is dead or has collapsed, train it again with "
        "a lower --lr, or leave it out\n"
    )


def test_a_dictionary(upload, said):
    files = [upload(0, owners=[[0, N]]), upload(1)]
    assert said(*files) == (
        f"error: {files[0]}: is a dictionary, whose rows are of no known images; what "
        "embed makes of the public images was wanted\n"
    )
