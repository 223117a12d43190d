"""Numbers of an attack's success, by value."""

from itertools import combinations

import numpy as np
import pytest

from furlkit.audits.success import auc, identified, mean_interval, measure, roc, tpr_at
from furlkit.errors import InputError


def test_auc_of_planted_scores():
    members, others = np.array([0.9, 0.8, 0.3]), np.array([0.7, 0.2])
    # Of 6 pairs, (0.3, 0.7) alone is in the wrong order.
    assert auc(members, others) == 5 / 6
    assert auc(others, members) == 1 / 6
    assert auc(members + 1, others) == 1


def test_ties_count_half():
    assert auc(np.array([1.0, 1.0]), np.array([1.0])) == 0.5
    assert auc(np.array([1.0, 2.0]), np.array([1.0, 0.0])) == (0.5 + 1 + 1 + 1) / 4


def test_auc_matches_a_loop():
    rng = np.random.default_rng(0)
    members, others = rng.integers(0, 6, 30), rng.integers(0, 5, 20)
    pairs = [(m > o) + 0.5 * (m == o) for m in members for o in others]
    assert auc(members, others) == pytest.approx(np.mean(pairs))


def test_tpr_allows_one_false_alarm_in_a_hundred():
    others = np.arange(100.0)  # One of 100 may be wrong: the threshold is 98.
    assert tpr_at(np.array([98.5, 99.5, 98.0, 5.0]), others) == 0.5
    assert tpr_at(np.array([98.5, 99.5]), others[1:]) == 0.5  # Of 99, none may be.


def test_members_equal_to_the_threshold_are_not_found():
    assert tpr_at(np.ones(4), np.ones(10)) == 0


def test_the_area_below_the_curve_is_the_auc():
    rng = np.random.default_rng(1)
    members, others = rng.integers(0, 9, 200), rng.integers(0, 7, 300)
    x, y = np.array(roc(members, others)).T
    assert (x[0], y[0], x[-1], y[-1]) == (0, 0, 1, 1)
    area = np.sum(np.diff(x) * (y[1:] + y[:-1]) / 2)
    assert area == pytest.approx(auc(members, others))


def test_a_long_curve_keeps_low_rates_and_the_ends():
    rng = np.random.default_rng(2)
    members, others = rng.normal(1, 1, 3000), rng.normal(0, 1, 3000)
    points = np.array(roc(members, others))
    assert len(points) <= 400 and points[-1].tolist() == [1, 1]
    found = points[points[:, 0] <= 0.01][-1]
    assert found[1] == pytest.approx(tpr_at(members, others), abs=0.01)


def test_a_bootstrap_is_repeated_by_the_seed_and_contains_the_value():
    rng = np.random.default_rng(3)
    members, others = rng.normal(1, 1, 60), rng.normal(0, 1, 80)
    one, same, other = (
        measure(members, others, np.random.default_rng(seed)) for seed in (5, 5, 6)
    )
    assert one == same and one.auc_interval != other.auc_interval
    low, high = one.auc_interval
    assert low < one.auc == auc(members, others) < high
    # Hanley and McNeil's standard error is about 0.04 for these sizes.
    assert 0.1 < high - low < 0.22


def test_intervals_cover_chance_for_equal_distributions():
    covered = 0
    for seed in range(40):
        rng = np.random.default_rng(seed)
        low, high = measure(rng.normal(size=40), rng.normal(size=40), rng).auc_interval
        covered += low <= 0.5 <= high
    assert covered >= 34  # 95 % of 40 are 38.


def test_scores_that_are_not_numbers_are_refused():
    with pytest.raises(InputError, match="NaN"):
        measure(np.array([np.nan]), np.zeros(3), np.random.default_rng(0))
    with pytest.raises(InputError, match="no member"):
        measure(np.zeros(0), np.zeros(3), np.random.default_rng(0))


@pytest.mark.parametrize("member", [2.0, 2.5, 9.0, -1.0])
def test_identification_matches_all_draws(member):
    others = np.array([0.0, 1.0, 2.0, 2.0, 3.0])
    chances = []
    for drawn in combinations(others, 2):  # k = 3 candidates
        best = max(drawn)
        ties = sum(each == member for each in drawn)
        chances.append(0 if best > member else 1 / (1 + ties))
    assert identified(member, others, 3) == pytest.approx(np.mean(chances))


def test_the_interval_of_a_mean():
    values = np.repeat([0.0, 1.0], 50)
    low, high = mean_interval(values, np.random.default_rng(0))
    assert low == pytest.approx(0.4, abs=0.03) and high == pytest.approx(0.6, abs=0.03)
