"""Centroids by the command line: two rounds in which clients share and receive them."""

import numpy as np
import pytest

from furlkit.exchanges.centroids import local_centroids
from furlkit.files.container.read import Container
from furlkit.files.features import read_features
from furlkit.files.progress import ProgressFile
from tests.helpers import digest, epoch_losses, few_digits, furlkit

WEIGHT = ("--centroid-weight", 0.5)


def train(folder, model, number, *more, clients="0-2"):
    words = ("local-train", folder / "p", model, "--data", folder / "d.npz", "-q")
    fast = ("--epochs", 2, "--batch-size", 30, "--client", clients)
    shared = ("--centroids-out", folder / f"z{number}_{{client}}")
    out = ("--local-centroids", 5, "-o", folder / f"u{number}_{{client}}")
    return (*words, *fast, *more, *shared, *out)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = few_digits(tmp_path_factory.mktemp("centroids"), 3)
    for number in (1, 2):
        received = ("--centroids", folder / "z1") if number == 2 else ()
        words = train(folder, folder / f"g{number - 1}", number, *WEIGHT, *received)
        assert furlkit(*words) == 0
        for name, rule in (("u", ()), ("z", ("--rule", "centroids", "--centroids", 6))):
            files = [folder / f"{name}{number}_{k}" for k in range(3)]
            out = folder / (f"g{number}" if name == "u" else f"z{number}")
            assert furlkit("aggregate", *rule, *files, "-q", "-o", out) == 0
    return folder


def test_local_centroids_of_two_directions_by_hand():
    z = np.float32([[2, 0], [4, 0], [0, 0], [0, 1], [0, 3], [0, 5]])
    rows, counts = local_centroids(z, 2)
    found = dict(zip(map(tuple, rows.tolist()), counts.tolist(), strict=True))
    assert found == {(1.0, 0.0): 2, (0.0, 1.0): 3}
    rows, counts = local_centroids(z, 9)  # Empty clusters are left out.
    assert len(rows) == 2 and counts.min() > 0 and counts.sum() == 5


def test_a_client_shares_the_centroids_of_its_model_with_counts(folder):
    data = ("--data", folder / "d.npz", "--partition", folder / "p", "--part", 1)
    words = ("embed", folder / "u1_1", *data, "--layer", "z", "-q")
    assert furlkit(*words, "-o", folder / "all") == 0
    z = read_features(folder / "all").rows
    shared = read_features(folder / "z1_1")
    assert shared.counts.sum() == len(z) == 60 and len(shared.rows) <= 5
    u = z / np.linalg.norm(z, axis=1, keepdims=True)
    nearest = (u @ shared.rows.T).argmax(axis=1)
    for k, row in enumerate(shared.rows):
        total = u[nearest == k].sum(axis=0)
        np.testing.assert_allclose(row, total / np.linalg.norm(total), atol=1e-4)
        assert shared.counts[k] == (nearest == k).sum()


def test_the_second_round_pulls_to_the_server_s_centroids(folder):
    assert "centroids" not in epoch_losses(folder / "u1_0")[0]
    first, last = (losses["centroids"] for losses in epoch_losses(folder / "u2_0"))
    assert 0 < first < 0.5 * 4 and 0 < last < 0.5 * 4
    content = read_features(folder / "z1").content
    assert Container(folder / "u2_0").header.inputs["centroids"] == content
    assert read_features(folder / "z2").counts.sum() == 180


def test_a_client_killed_at_every_save_shares_the_same_bytes(folder, until_done):
    more = (*WEIGHT, "--centroids", folder / "z1", "--save-every", 0)
    words = train(folder, folder / "g1", 3, *more, clients=0)
    assert until_done(ProgressFile, "save", *words) > 1
    assert digest(folder / "z3_0") == digest(folder / "z2_0")
    assert digest(folder / "u3_0") == digest(folder / "u2_0")


def test_shared_centroids_are_made_again_by_replay(folder, run, tmp_path):
    among = ("--among", folder, "--data", folder / "d.npz")
    words = ("replay", folder / "z2_1", "--depth", 1, *among, "--run")
    outcome = run(*words, "--into", tmp_path)
    assert outcome.code == 0 and "same bytes" in outcome.out


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        (("--centroids", "z1"), 2, ["--centroid-weight"]),
        ((*WEIGHT, "--centroids", "z1_0"), 65, ["z1_0", "aggregate --rule centroids"]),
        ((*WEIGHT, "--centroids", "z2"), 65, ["z2", "round 2"]),
    ],
)
def test_options_and_files_that_do_not_fit(folder, refused, more, code, words):
    more = [folder / word if str(word).startswith("z") else word for word in more]
    line = train(folder, folder / "g1", 4, *more, clients=0)
    refused(folder, code, words, *line)


def test_counts_that_tell_the_number_of_images_are_named(folder, run):
    words = train(folder, folder / "g0", 5, "--tell", "loss", clients=0)
    assert "number of images of client 0" in run(*words).err


def test_a_net_without_a_projector_has_no_centroids(folder, refused, run, tmp_path):
    net = ("--objective", "rotation", "--width", 0.05)
    assert run("init", "--data", folder / "d.npz", *net, "-o", tmp_path / "g").code == 0
    line = train(folder, tmp_path / "g", 4, "--objective", "rotation", clients=0)
    refused(folder, 2, ["--centroids-out", "projector"], *line)
