"""Centroids of rows with counts: loops, properties, known values."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from furlkit.aggregators.centroids import assigned, centroids, combine, whole_counts

PLAIN = {"iterations": 50, "equal_sizes": False, "epsilon": 0.05}
EQUAL = {**PLAIN, "equal_sizes": True}


def rows(n: int, d: int = 5, seed: int = 0) -> np.ndarray:
    found = np.random.default_rng(seed).normal(size=(n, d))
    return found / np.linalg.norm(found, axis=1, keepdims=True)


def one_step_in_loops(x, counts, K) -> list[list[float]]:
    """Farthest-first start, nearest centroid, weighted mean, length 1."""

    def dot(a, b):
        return sum(p * q for p, q in zip(a, b, strict=True))

    start = [max(range(len(x)), key=lambda i: counts[i])]
    while len(start) < K:
        closeness = [max(dot(r, x[s]) for s in start) for r in x]
        start.append(min(range(len(x)), key=lambda i: closeness[i]))
    sums = [[0.0] * len(x[0]) for _ in range(K)]
    for row, count in zip(x, counts, strict=True):
        best = max(range(K), key=lambda k: dot(row, x[start[k]]))
        sums[best] = [s + count * v for s, v in zip(sums[best], row, strict=True)]
    return [[v / math.sqrt(dot(s, s)) for v in s] for s in sums]


def test_one_step_matches_loops():
    x, counts = rows(30), np.random.default_rng(1).integers(1, 50, 30)
    found, _ = centroids(x, counts, centroids=4, **{**PLAIN, "iterations": 1})
    expected = one_step_in_loops(x.tolist(), counts.tolist(), 4)
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_a_count_is_as_many_equal_rows():
    x, counts = rows(20), np.random.default_rng(2).integers(1, 4, 20)
    counts[7] = 5  # One largest count, which both start from.
    repeated, ones = np.repeat(x, counts, axis=0), np.ones(counts.sum(), int)
    order = np.argsort(-np.repeat(counts, counts), kind="stable")
    one, sizes = centroids(x, counts, centroids=3, **PLAIN)
    other, others = centroids(repeated[order], ones, centroids=3, **PLAIN)
    np.testing.assert_allclose(one, other, rtol=1e-10)
    assert sizes.tolist() == others.tolist() and sizes.sum() == counts.sum()


def test_centroids_turn_with_the_rows_and_ignore_their_length():
    x, counts = rows(25), np.arange(1, 26)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(5, 5)))[0]
    lengths = np.random.default_rng(4).uniform(0.5, 2, (25, 1))
    for how in (PLAIN, EQUAL):
        one, _ = centroids(x, counts, centroids=4, **how)
        other, _ = centroids(lengths * (x @ turn), counts, centroids=4, **how)
        np.testing.assert_allclose(one @ turn, other, atol=1e-8)
        np.testing.assert_allclose(np.linalg.norm(one, axis=1), 1, rtol=1e-12)


def test_clusters_of_equal_size_share_the_images_alike():
    mass = np.arange(1, 13) / 78
    P = assigned(rows(12) @ rows(3, seed=5).T, mass, 0.5)
    np.testing.assert_allclose(P.sum(axis=0), 1 / 3, rtol=1e-6)
    np.testing.assert_allclose(P.sum(axis=1), mass, rtol=1e-12)


def test_two_directions_of_three_numbers():
    """Rows (1,0,0) and (0,1,0) of 1 and 3 images: a mean of (1, 3, 0) / sqrt(10)."""
    x = np.array([[1, 0, 0], [0, 1, 0], [0, 0, -2]], np.float32)
    counts = np.array([1, 3, 2])
    found, held = centroids(x, counts, centroids=1, **PLAIN)
    np.testing.assert_allclose(
        found[0], np.array([1, 3, -2]) / math.sqrt(14), rtol=1e-6
    )
    assert held.tolist() == [6] and found.dtype == np.float32
    found, held = centroids(x, counts, centroids=3, **PLAIN)
    assert found.tolist() == [[0, 1, 0], [1, 0, 0], [0, 0, -1]]
    assert held.tolist() == [3, 1, 2]


@pytest.mark.parametrize("how", [PLAIN, EQUAL])
def test_more_clusters_than_directions_leave_some_empty(how):
    x = np.tile([[1.0, 0.0]], (3, 1))
    found, held = centroids(x, np.array([1, 2, 3]), centroids=2, **how)
    assert np.isfinite(found).all() and held.sum() == 6


def test_clusters_of_equal_size_have_equal_counts():
    """Also of rows in nearly one direction, whose nearest centroid is always the same."""
    x = np.eye(5)[0] + 0.01 * rows(40)
    _, held = centroids(x, np.ones(40), centroids=16, **EQUAL)
    assert sorted(held.tolist()) == [2] * 8 + [3] * 8


def test_whole_counts_round_the_largest_remainders_up():
    assert whole_counts(np.array([0.25, 0.4, 0.35]), 10).tolist() == [3, 4, 3]
    assert whole_counts(np.array([1.0, 2.0, 3.0]), 6).tolist() == [1, 2, 3]


def test_fewer_rows_than_centroids_are_a_warning():
    shared = [SimpleNamespace(rows=rows(2), counts=np.array([3, 4])) for _ in range(2)]
    combined = combine(shared, centroids=9, **PLAIN)
    assert "only 4 rows" in combined.warnings[0]
    assert len(combined.make()["rows"]) == combined.data["centroids"] == 4
    assert not combine(shared, centroids=4, **PLAIN).warnings
