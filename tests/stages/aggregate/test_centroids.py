"""aggregate --rule centroids: rows with counts, by the command line."""

import numpy as np
import pytest

from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts, read_features, write_features
from tests.helpers import digest, furlkit


def share(path, client, rows, counts=None, **facts):
    known = {"layer": "z", "dataset": {}, "part": str(client), "round": 2, **facts}
    about = FeatureFacts(client=client, examples=len(rows), **known)
    more = (np.arange(len(rows)), about, Provenance("local-train"))
    counts = None if counts is None else np.array(counts)
    write_features(path, np.array(rows, np.float32), *more, counts=counts)


@pytest.fixture
def folder(tmp_path):
    share(tmp_path / "c0", 0, [[1, 0], [0, 1]], [3, 5])
    share(tmp_path / "c1", 1, [[1, 0], [0, -1]], [1, 2])
    return tmp_path


def words(folder, *more):
    files = (folder / "c0", folder / "c1")
    return ("aggregate", "--rule", "centroids", *files, *more, "-o", folder / "out")


def test_rows_of_two_clients_become_centroids_with_counts(folder, run):
    assert furlkit(*words(folder, "--centroids", 3)) == 0
    found = read_features(folder / "out")
    assert found.rows.tolist() == [[0, 1], [0, -1], [1, 0]]
    assert found.counts.tolist() == [5, 2, 4]
    assert (found.facts.part, found.facts.round) == ("centroids", 2)
    before = digest(folder / "out")
    assert "already there" in run(*words(folder, "--centroids", 3)).out
    assert furlkit(*words(folder, "--centroids", 3, "--force")) == 0
    assert digest(folder / "out") == before
    assert "3 x 2 values" in run("inspect", folder / "out").out


def test_the_order_of_files_does_not_matter(folder):
    assert furlkit(*words(folder, "--centroids", 2, "--equal-sizes")) == 0
    before = digest(folder / "out")
    line = ("aggregate", "--rule", "centroids", folder / "c1", folder / "c0")
    more = ("--centroids", 2, "--equal-sizes", "--force", "-o", folder / "out")
    assert furlkit(*line, *more) == 0
    assert digest(folder / "out") == before


@pytest.mark.parametrize(
    ("rows", "counts", "facts", "word"),
    [
        ([[1, 0]], None, {}, "no counts"),
        ([[1, 0]], [0], {}, "images"),
        ([[0, 0]], [1], {}, "zeros"),
        ([[1, 0, 0]], [1], {}, "length of a row"),
        ([[1, 0]], [1], {"round": 1}, "round"),
        ([[1, 0]], [1], {"layer": "h"}, "layer"),
    ],
)
def test_rows_that_do_not_fit_are_refused(folder, refused, rows, counts, facts, word):
    share(folder / "c2", 2, rows, counts, **facts)
    line = words(folder, folder / "c2", "--centroids", 1)
    refused(folder, 65, ["c2", word], *line)


def test_too_few_rows_are_named_and_give_fewer_centroids(folder, run):
    outcome = run(*words(folder, "--centroids", 5))
    assert outcome.code == 0 and "only 4 rows" in outcome.err
    assert len(read_features(folder / "out").rows) == 4
    assert run(*words(folder, "--centroids", 5, "--force", "--strict")).code == 65


def test_a_client_that_claims_most_images_is_named(folder, run):
    share(folder / "c1", 1, [[1, 0]], [10**9])
    outcome = run(*words(folder, "--centroids", 1))
    assert outcome.code == 0 and "client 1 claims 100.0%" in outcome.err
