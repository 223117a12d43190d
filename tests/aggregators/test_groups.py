"""Groups among updates: by hand, in loops, and uploads of sybils and colluders."""

import numpy as np
import pytest

from furlkit.aggregators.distances import inner_products
from furlkit.aggregators.groups import alike_groups, opposed_groups
from furlkit.aggregators.outliers import measured, sketched, stand_out
from furlkit.attacks.alie import alie
from furlkit.attacks.min_max import min_max
from tests.aggregators.conftest import InMemory

N = 3000


def cosines(updates) -> np.ndarray:
    units = np.stack([u / np.linalg.norm(u) for u in updates])
    return units @ units.T


def honest(count: int, seed: int = 0, common: float = 0.35) -> np.ndarray:
    """Updates with a common direction; mean cosines of about 0.1."""
    rng = np.random.default_rng(seed)
    return common * rng.normal(size=N) + rng.normal(size=(count, N))


def noisy(update: np.ndarray, count: int, jitter: float) -> np.ndarray:
    """One update under many names."""
    noise = np.random.default_rng(9).normal(size=(count, N))
    return update + jitter * np.linalg.norm(update) / N**0.5 * noise


def found(updates, parent: bool = True):
    start = np.full(N, 3.0)
    models = [{"w": start + u} for u in updates]
    uploads = InMemory(models, parent={"w": start} if parent else None)
    return measured(uploads, inner_products(uploads, parent))


# --- two groups ---------------------------------------------------------------------------


def test_groups_by_hand():
    C = np.array([[1, -1, 1, -1, 1.0]]).T @ np.array([[1, -1, 1, -1, 1.0]])
    assert opposed_groups(C) == [[0, 2, 4], [1, 3]]
    C = np.array([[1, -1, 1, 1, 1, 1.0]]).T @ np.array([[1, -1, 1, 1, 1, 1.0]])
    assert opposed_groups(C) is None  # One of six is a minority.
    assert opposed_groups(np.eye(6)) is None
    assert opposed_groups(np.ones((6, 6))) is None


@pytest.mark.parametrize("count", [4, 9, 12, 30])
def test_honest_clients_are_no_groups(count):
    for seed in range(5):
        C = cosines(honest(count, seed))
        assert opposed_groups(C) is None and alike_groups(C) == []


@pytest.mark.parametrize("sybils", [5, 6, 7, 8])
@pytest.mark.parametrize("factor", [0.2, 1.0, 3.0])
def test_sybils_do_not_make_the_report_name_honest_clients(sybils, factor):
    """Six honest clients; the sybils send the reversed mean, of another length."""
    updates = honest(6)
    lie = noisy(-factor * updates.mean(axis=0), sybils, 0.3)
    seen = found([*updates, *lie])
    assert sorted(seen.opposed) == [list(range(6)), list(range(6, 6 + sybils))]
    assert stand_out(seen)[:6] == [[]] * 6


def test_a_minority_is_still_named_by_its_angle():
    updates = honest(10)
    updates[3] *= -1
    seen = found(updates)
    assert seen.opposed is None and stand_out(seen)[3] == ["angle"]


def test_a_scaled_update_is_named_within_its_group():
    updates = honest(6)
    lie = noisy(-updates.mean(axis=0), 6, 0.3)
    updates[2] *= 100
    reasons = stand_out(found([*updates, *lie]))
    assert [k for k, each in enumerate(reasons) if "norm" in each] == [2]


# --- updates that are alike -----------------------------------------------------------------


def test_alike_updates_by_hand():
    C = np.eye(5)
    C[1, 3] = C[3, 1] = 0.95
    assert alike_groups(C) == [[1, 3]]
    C[3, 4] = C[4, 3] = 0.95  # Through another.
    assert alike_groups(C) == [[1, 3, 4]]
    assert alike_groups(np.full((4, 4), 0.95)) == []  # All are alike: nothing is odd.
    C = np.full((5, 5), 0.8) + 0.2 * np.eye(5)
    C[0, 1] = C[1, 0] = 0.95
    assert alike_groups(C) == []


@pytest.mark.parametrize("sybils", [2, 3, 4, 7])
def test_sybils_are_named_as_alike(sybils):
    updates = honest(6)
    lie = noisy(-updates.mean(axis=0), sybils, 0.05)
    reasons = stand_out(found([*updates, *lie]))
    assert all("alike" in each for each in reasons[6:])
    assert not any(reasons[:6])


@pytest.mark.parametrize("jitter, named", [(0.1, True), (0.6, False)])
@pytest.mark.parametrize(
    "attack", [lambda u: alie(u, factor=1.5), lambda u: min_max(u, direction="unit")]
)
def test_colluders_are_named_unless_noise_hides_them(attack, jitter, named):
    """Three of ten. With enough noise they are like honest clients, and not named."""
    updates = honest(7)
    lie = noisy(attack(updates), 3, jitter)
    reasons = stand_out(found([*updates, *lie]))
    assert not any(reasons[:7])
    assert all("alike" in each for each in reasons[7:]) == named


def test_copies_are_copies_and_not_alike():
    updates = honest(5)
    updates[4] = updates[2]
    seen = found(updates)
    assert seen.alike == []
    assert stand_out(seen) == [[], [], ["copy"], [], ["copy"]]


def test_without_a_parent_there_are_no_groups():
    updates = honest(6)
    seen = found([*updates, *noisy(-updates.mean(axis=0), 7, 0.05)], parent=False)
    assert seen.opposed is None and list(seen.alike) == []


# --- sketches -------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.1, 1.0])
def test_sketches_do_not_blame_honest_clients(factor):
    updates = honest(6)
    lie = noisy(-factor * updates.mean(axis=0), 7, 0.05)
    start = 5 * np.ones(N)
    seen = sketched(start + np.stack([*updates, *lie]), start, np.ones(13))
    assert not seen.against.any() and not seen.far.any()
    assert seen.opposed == [list(range(6, 13)), list(range(6))]
    assert seen.alike == [list(range(6, 13))]
