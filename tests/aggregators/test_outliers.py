"""Which uploads stand out: norms, angles and copies against loops and by hand."""

import numpy as np
import pytest

from furlkit.aggregators.distances import inner_products
from furlkit.aggregators.outliers import Measured, measured, stand_out
from tests.aggregators.conftest import InMemory

PARENT = {"w": np.full(50, 3.0)}


def honest(k: int) -> np.ndarray:
    """An update with a direction that all share, and one of its own."""
    return 1 + np.random.default_rng(k).normal(size=50)


def found(updates, parent=True) -> Measured:
    models = [{"w": PARENT["w"] + u} for u in updates]
    uploads = InMemory(models, parent=PARENT if parent else None)
    return measured(uploads, inner_products(uploads, parent))


def test_norms_and_angles_match_loops():
    updates = [honest(k) for k in range(6)]
    seen = found(updates)
    for k, u in enumerate(updates):
        others = sum(v / np.linalg.norm(v) for v in updates if v is not u)
        cosine = u @ others / np.linalg.norm(u) / np.linalg.norm(others)
        assert seen.norms[k] == pytest.approx(np.linalg.norm(u))
        assert seen.angles[k] == pytest.approx(np.degrees(np.arccos(cosine)))
    assert seen.copies == [None] * 6 and stand_out(seen) == [[]] * 6


def test_without_a_parent_norms_are_from_the_geometric_median():
    """Of three points in a row it is the one in the middle."""
    seen = found([np.full(50, x) for x in (0.0, 1.0, 5.0)], parent=False)
    assert seen.angles is None
    assert seen.norms == pytest.approx(np.sqrt(50) * np.array([1, 0, 4]), abs=1e-3)


@pytest.mark.parametrize(
    "attack, reasons",
    [
        (lambda u: 100 * u, ["norm"]),
        (lambda u: 0.01 * u, ["norm"]),
        (lambda u: -u, ["angle"]),
        (lambda u: 10 * np.random.default_rng(9).normal(size=50), ["norm"]),
        (lambda u: honest(7), ["copy"]),
        (lambda u: u, []),
    ],
)
def test_an_attack_stands_out_and_nobody_else(attack, reasons):
    updates = [honest(k) for k in range(10)]
    updates[3] = attack(updates[3])
    copied = ["copy"] if reasons == ["copy"] else []
    expected = [[], [], [], reasons, [], [], [], copied, [], []]
    assert stand_out(found(updates)) == expected


def test_two_have_no_majority():
    assert stand_out(found([honest(0), 100 * honest(1)])) == [[], []]


def test_statistics_far_from_the_others():
    models = [{"w": honest(k), "bn.running_var": honest(k)[:4]} for k in range(6)]
    models[2]["bn.running_var"] = np.full(4, 1e4)
    uploads = InMemory(models)
    seen = measured(uploads, inner_products(uploads))
    assert stand_out(seen) == [[], [], ["statistics"], [], [], []]
