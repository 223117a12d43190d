"""Cosines that no vectors have are found; rounded cosines of vectors never are."""

import numpy as np
import pytest

from furlkit.errors import InputError
from furlkit.files.facts import Provenance
from furlkit.files.features import FeatureFacts
from furlkit.files.gram import find_impossible, known_together, sampled_places
from furlkit.files.similarity import read_similarity, write_similarity

ENCODINGS = ("float32", "float16", "int8")
PROVENANCE = Provenance("embed", {}, None, {"model": "a" * 64})


def cosines(n: int, width: int, seed: int = 0) -> np.ndarray:
    R = np.random.default_rng(seed).standard_normal((n, width)).astype(np.float32)
    R /= np.linalg.norm(R, axis=1, keepdims=True)
    return R @ R.T


@pytest.fixture
def sent(tmp_path):
    """Write a similarity and read it back: a whole matrix, or the `top` largest."""

    def call(M: np.ndarray, encoding: str = "float32", top: int = 0):
        n, path = len(M), tmp_path / "s"
        facts = FeatureFacts("z", {"examples": n}, "all", 0, 1, n)
        nearest = np.argsort(-M - 9 * np.eye(n), axis=1)  # Oneself, then the others.
        columns = nearest[:, :top] if top else None
        values = M if columns is None else np.take_along_axis(M, columns, 1)
        values = values.clip(max=1)
        how = (np.arange(n), facts, PROVENANCE, encoding, columns)
        write_similarity(path, [values], *how)
        return read_similarity(path)

    return call


def test_three_images_by_hand():
    """A is like B, B is like C, but A is not like C; the eigenvalues are known."""
    M = np.array([[1, 0.9, 0], [0.9, 1, 0.9], [0, 0.9, 1]])
    odd = find_impossible(M, 0.001)
    assert odd.eigenvalue == pytest.approx(1 - 0.9 * 2**0.5)
    assert odd.places.tolist() == [0, 1, 2] and odd.limit == pytest.approx(-0.003)
    assert find_impossible(M, 0.1) is None
    assert find_impossible(np.eye(3), 0) is None
    assert find_impossible(np.empty((0, 0)), 0) is None


@pytest.mark.parametrize("size", [2, 4, 16, 40])
def test_the_worst_rounding_is_allowed_and_no_more(size):
    """Errors e with the signs of an eigenvector of 0 lower the eigenvalue by s e."""
    signs = np.where(np.arange(size) % 2, 1.0, -1.0)
    M = np.ones((size, size)) - 0.01 * np.outer(signs, signs)  # Equal vectors.
    assert find_impossible(M, 0.01 + 1e-9) is None
    odd = find_impossible(M, 0.0099)
    assert odd.eigenvalue == pytest.approx(-0.01 * len(odd.places))


def test_a_false_block_among_many_images_is_found():
    M = np.eye(100)
    M[64:80, 64:80] = 1  # Equal images ...
    M[64, 65:80] = M[65:80, 64] = -1  # ... but one is the opposite of all: possible.
    assert find_impossible(M, 1e-6) is None
    M[64, 70] = M[70, 64] = 1
    assert set(find_impossible(M, 1e-6).places) <= set(range(64, 80))


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("width", [1, 2, 7, 300])
@pytest.mark.parametrize("n", [1, 2, 5, 290])
def test_rounded_cosines_of_vectors_are_accepted(sent, encoding, width, n):
    M = cosines(n, width)
    sent(M, encoding)
    for top in {1, min(n, 3), min(n, 90), n}:
        sent(M, encoding, top)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_nearly_equal_images_are_accepted(sent, encoding):
    """A collapsed model: all cosines are 1 after rounding."""
    R = 1 + 1e-4 * np.random.default_rng(0).standard_normal((280, 32))
    R /= np.linalg.norm(R, axis=1, keepdims=True)
    sent((R @ R.T).astype(np.float32), encoding)
    sent((R @ R.T).astype(np.float32), encoding, 20)


def random_signs(n: int) -> np.ndarray:
    upper = np.triu(np.random.default_rng(1).choice([-0.9, 0.9], (n, n)), 1)
    return (upper + upper.T + np.eye(n)).astype(np.float32)


def merged_classes(n: int) -> np.ndarray:
    """Two classes at right angles; one client claims some pairs are alike."""
    M = np.kron(np.eye(2), np.ones((n // 2, n // 2))).astype(np.float32)
    M[: n // 8, n // 2 :] = M[n // 2 :, : n // 8] = 0.95
    return M


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("forged", [random_signs, merged_classes])
def test_cosines_that_no_vectors_have_are_refused(sent, encoding, forged):
    with pytest.raises(InputError, match="no vectors have the cosines"):
        sent(forged(96), encoding)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("top", [60, 96])
def test_largest_cosines_that_no_vectors_have_are_refused(sent, encoding, top):
    with pytest.raises(InputError, match="no vectors have the cosines"):
        sent(random_signs(96), encoding, top)


def test_images_of_which_all_cosines_are_known():
    known = np.ones((4, 4), bool)
    known[1, 2] = known[2, 1] = False
    assert known_together(known) == [0, 1, 3]


def test_the_sample_depends_on_the_file():
    one, other = sampled_places(1000, "a" * 64), sampled_places(1000, "b" * 64)
    assert len(set(one)) == 256 and one.tolist() != other.tolist()
    assert one.tolist() == sampled_places(1000, "a" * 64).tolist()
    assert sorted(sampled_places(9, "a")) == list(range(9))
