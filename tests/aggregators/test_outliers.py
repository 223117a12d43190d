"""Which uploads stand out: norms, angles and copies against loops and by hand."""

import numpy as np
import pytest

from furlkit.aggregators.distances import inner_products
from furlkit.aggregators.outliers import Measured, measured, sketched, stand_out
from furlkit.aggregators.sketch import BLOCK, WIDTH, sketch_of
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


def sketches_of(vectors) -> np.ndarray:
    pieces = [np.array_split(v.astype(np.float32), 3) for v in vectors]
    return np.stack([
        sum(sketch_of(piece, "w", k, 1) for k, piece in enumerate(each)) for each in pieces
    ])  # fmt: skip


def test_a_sketch_keeps_lengths_and_is_linear():
    rng = np.random.default_rng(0)
    w = rng.normal(size=(2, 50_000)) * rng.random(50_000) ** 4
    one, other, both = sketches_of([w[0], w[1], w[0] - 2 * w[1]])
    np.testing.assert_allclose(one - 2 * other, both, atol=1e-3)
    for vector, sketch in zip((w[0], w[0] - 2 * w[1]), (one, both), strict=True):
        length = np.linalg.norm(vector)
        assert np.linalg.norm(sketch) == pytest.approx(length, rel=0.1)


def test_a_sketch_by_hand():
    """Numbers are in places that follow each other, with signs; sizes divide them."""
    found = np.abs(sketch_of(np.arange(1, 4, dtype=np.float32), "b", 0, 4))
    first = int(found.argmax()) - 2
    assert np.roll(found, -first)[:4].tolist() == [0.5, 1, 1.5, 0]
    assert np.count_nonzero(found) == 3
    long = sketch_of(np.ones(2 * WIDTH, np.float32), "b", 0, 1)
    assert set(np.abs(long)) == {0, 2}


def test_a_sketch_of_half_precision_is_of_all_blocks():
    """A piece of float16 has more numbers than a block."""
    w = np.random.default_rng(0).normal(size=BLOCK * WIDTH + 5).astype(np.float16)
    found = sketch_of(w, "b", 0, 1)
    only = sketch_of(w[: BLOCK * WIDTH], "b", 0, 1)
    places = np.flatnonzero(found != only)
    differences = np.sort(np.abs(found - only)[places])
    np.testing.assert_allclose(differences, np.sort(np.abs(w[-5:])), rtol=1e-4)


def test_rows_that_are_alike_do_not_spoil_the_angles_of_sketches():
    """Layers often move alike: a_i b_j with b of one sign. Two are orthogonal by a."""
    rng = np.random.default_rng(0)
    for number in range(20):
        a = rng.normal(size=(2, 50, 1))
        a[1] -= a[0] * np.vdot(*a) / np.vdot(a[0], a[0])
        w = (a * (1 + rng.random(2000))).reshape(2, -1)
        one, other = (sketch_of(v.astype(np.float32), f"{number}", 0, 1) for v in w)
        cosine = one @ other / np.linalg.norm(one) / np.linalg.norm(other)
        assert abs(cosine) < 0.15


def round_of(count: int, common: float) -> tuple[np.ndarray, np.ndarray]:
    """A global model and models trained from it, whose updates share a direction."""
    rng = np.random.default_rng(1)
    w_g, shared = rng.normal(size=(2, 20_000))
    own = rng.normal(size=(count, 20_000))
    return w_g, w_g + 0.01 * (common * shared + own)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("count", [3, 10])
@pytest.mark.parametrize("factor", [1, 100])
def test_scaled_updates_are_plain_in_sketches(factor, count, known):
    w_g, w = round_of(count, 0.3)
    w[1] = w_g + factor * (w[1] - w_g)
    s_g, *s = sketches_of([w_g, *w])
    found = sketched(np.stack(s), s_g if known else None, np.ones(count))
    assert np.flatnonzero(found.far).tolist() == [1] * (factor == 100)
    assert not found.against.any()


def test_noise_ten_times_as_long_is_plain():
    w_g, w = round_of(10, 0.3)
    w[1] = w_g + 0.1 * np.random.default_rng(9).normal(size=20_000)
    s_g, *s = sketches_of([w_g, *w])
    for origin in (s_g, None):
        found = sketched(np.stack(s), origin, np.ones(10))
        assert np.flatnonzero(found.far).tolist() == [1]


@pytest.mark.parametrize("count", [3, 4, 8, 20])
@pytest.mark.parametrize("common, named", [(0.5, True), (0.1, False)])
def test_a_flipped_update_is_plain_if_the_others_agree(count, common, named):
    """Mean cosines of the others are about 0.2 and 0.01."""
    w_g, w = round_of(count, common)
    w[1] = w_g - (w[1] - w_g)
    s_g, *s = sketches_of([w_g, *w])
    found = sketched(np.stack(s), s_g, np.ones(count))
    assert np.flatnonzero(found.against).tolist() == [1] * named


def test_angles_are_to_the_sum_of_the_others():
    w_g, w = round_of(4, 0.5)
    w[2] = w_g  # No update has no direction.
    s_g, *s = sketches_of([w_g, *w])
    units = np.stack([(x - s_g) / (np.linalg.norm(x - s_g) or 1) for x in s])
    found = sketched(np.stack(s), s_g, np.ones(4))
    for k in (0, 1, 3):
        others = np.delete(units, k, axis=0).sum(axis=0)
        cosine = units[k] @ others / np.linalg.norm(others)
        assert found.angles[k] == pytest.approx(np.degrees(np.arccos(cosine)))
    assert found.angles[2] == 90 and not found.against.any()


def test_nothing_is_said_that_cannot_be_known():
    w_g, w = round_of(4, 0.3)
    s_g, *s = sketches_of([w_g, *w])
    assert sketched(np.stack(s[:2]), s_g, np.ones(2)) is None
    copies = np.stack([s[0], s[0], s[1]])
    assert sketched(copies, None, np.ones(3)) is None


def test_more_examples_may_move_a_model_farther():
    w_g, w = round_of(5, 0.3)
    w[1] = w_g + 8 * (w[1] - w_g)
    s_g, *s = sketches_of([w_g, *w])
    examples = np.array([10, 10, 10, 10, 10.0])
    assert sketched(np.stack(s), s_g, examples).far.tolist() == [0, 1, 0, 0, 0]
    examples[1] = 80
    assert not sketched(np.stack(s), s_g, examples).far.any()
