"""Hostile updates by hand, in loops, by their properties, and against ByzFL's."""

from statistics import NormalDist

import numpy as np
import pytest
import torch

from furlkit.attacks.alie import alie, largest_z
from furlkit.attacks.backdoor import backdoor_loss, stamped
from furlkit.attacks.ipm import ipm
from furlkit.attacks.min_max import DIRECTIONS, largest_shift, min_max
from furlkit.errors import UsageError

RNG = np.random.default_rng(0)
UPDATES = RNG.normal(size=(7, 30)) + 0.5


# --- a little is enough ------------------------------------------------------------------


def test_alie_by_hand():
    u = np.array([[1.0, 0.0], [3.0, 0.0]])
    assert alie(u, factor=2.0).tolist() == [2 + 2 * 2**0.5, 0]
    assert alie(u[:1], factor=2.0).tolist() == [1, 0]


def test_alie_in_loops():
    found = alie(UPDATES, factor=1.5)
    for j in range(UPDATES.shape[1]):
        numbers = [float(u[j]) for u in UPDATES]
        mean = sum(numbers) / 7
        deviation = (sum((x - mean) ** 2 for x in numbers) / 6) ** 0.5
        assert found[j] == pytest.approx(mean + 1.5 * deviation)


@pytest.mark.parametrize(
    "clients, hostile, share",
    [(50, 24, 24 / 26), (51, 12, 25 / 39), (10, 3, 4 / 7), (10, 2, 0.5), (10, 1, 0.4)],
)
def test_the_largest_z_by_hand(clients, hostile, share):
    """Of 50 clients with 24 hostile, 2 honest supporters are needed: z = 1.43."""
    expected = max(0, NormalDist().inv_cdf(share))
    assert largest_z(clients, hostile) == pytest.approx(expected)
    if (clients, hostile) == (50, 24):
        assert largest_z(clients, hostile) == pytest.approx(1.43, abs=0.01)


def test_more_attackers_may_move_farther_and_a_majority_needs_no_hiding():
    found = [largest_z(101, f) for f in range(1, 50)]
    assert found == sorted(found) and found[-1] > 1
    with pytest.raises(UsageError, match="majority"):
        largest_z(10, 6)


# --- inner products ----------------------------------------------------------------------


def test_ipm_by_hand_and_its_product_with_the_mean():
    assert ipm(np.array([[1.0, 2.0], [3.0, 0.0]]), factor=0.5).tolist() == [-1, -0.5]
    mean = UPDATES.mean(axis=0)
    found = ipm(UPDATES, factor=0.1)
    assert found @ mean == pytest.approx(-0.1 * mean @ mean)


def test_ipm_in_loops():
    for j, found in enumerate(ipm(UPDATES, factor=2.0)):
        assert found == pytest.approx(-2 * sum(float(u[j]) for u in UPDATES) / 7)


# --- min-max -------------------------------------------------------------------------------


def test_min_max_by_hand():
    """On a line: 0 and 2 are 2 apart; the mean 1 may move by 1 to 0, not farther."""
    u = np.array([[0.0], [2.0]])
    for direction in DIRECTIONS:
        assert min_max(u, direction=direction).tolist() == pytest.approx([0])
    assert largest_shift(u, np.array([1.0]), np.array([-0.25])) == pytest.approx(4)
    same = np.ones((3, 2))
    assert min_max(same, direction="deviation").tolist() == [1, 1]


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_min_max_as_the_paper_searches(direction):
    """Algorithm 1 of the paper: gamma by halving steps."""
    mu, p = UPDATES.mean(axis=0), DIRECTIONS[direction](UPDATES)
    widest = max(np.linalg.norm(a - b) for a in UPDATES for b in UPDATES)
    gamma, step, good = 20.0, 20.0, 0.0
    while step > 1e-9:
        if max(np.linalg.norm(mu + gamma * p - u) for u in UPDATES) <= widest:
            good, gamma = gamma, gamma + step / 2
        else:
            gamma -= step / 2
        step /= 2
    np.testing.assert_allclose(
        min_max(UPDATES, direction=direction), mu + good * p, atol=1e-6
    )


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_min_max_is_as_far_as_the_farthest_two(direction):
    found = min_max(UPDATES, direction=direction)
    widest = max(np.linalg.norm(a - b) for a in UPDATES for b in UPDATES)
    farthest = max(np.linalg.norm(found - u) for u in UPDATES)
    assert farthest == pytest.approx(widest)


# --- backdoors -----------------------------------------------------------------------------


def test_the_trigger_is_a_white_square_in_the_corner():
    images = np.zeros((2, 4, 5, 3), np.uint8)
    found = stamped(images, 2)
    assert found.sum() == 2 * 2 * 2 * 3 * 255 and not images.any()
    assert (found[:, 2:, 3:] == 255).all()


def test_the_loss_of_a_backdoor_by_hand():
    """cos 45 degrees for the trigger, 1 for the target, 0 for a clean image."""
    x, y = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 2.0]])
    loss = backdoor_loss(x + y / 2, x, x, 3 * x, y)
    assert loss.item() == pytest.approx(-(0.5**0.5 + 1 + 0))
    assert backdoor_loss(x, x, y, x, y).item() == pytest.approx(-3)


def test_the_loss_of_a_backdoor_in_loops():
    generator = torch.Generator().manual_seed(0)
    marked, clean, before = torch.randn((3, 5, 4), generator=generator).double()
    r, f_r = torch.randn((2, 1, 4), generator=generator).double()

    def cosine(a, b):
        return float(a @ b / (a @ a) ** 0.5 / (b @ b) ** 0.5)

    total = -cosine(r[0], f_r[0])
    for k in range(5):
        total -= (cosine(marked[k], r[0]) + cosine(clean[k], before[k])) / 5
    loss = backdoor_loss(marked, r, clean, f_r, before)
    assert loss.item() == pytest.approx(total)


# --- ByzFL -----------------------------------------------------------------------------------


@pytest.mark.parametrize("factor", [0.1, 1.5])
def test_the_same_as_byzfl(factor):
    byzfl = pytest.importorskip("byzfl")
    pairs = {
        alie: byzfl.ALittleIsEnough(tau=factor),
        ipm: byzfl.InnerProductManipulation(tau=factor),
    }
    for ours, theirs in pairs.items():
        np.testing.assert_allclose(ours(UPDATES, factor=factor), theirs(UPDATES))
