"""Intervals over seeds, and what probes alone would give."""

from itertools import product

import numpy as np
import pytest

from furlkit.reports.differences import (
    INTERVALS,
    Difference,
    Interval,
    difference_error,
    paired,
    probe_error,
    probe_std,
    wilcoxon_interval,
)

each_interval = pytest.mark.parametrize("interval", INTERVALS)


def test_paired_gives_the_interval_of_a_printed_t_table():
    # Differences 1, 2, 3: mean 2, deviation 1; t of 2 degrees of freedom is 4.303.
    found = paired([11, 22, 33], [10, 20, 30])
    assert (found.mean, found.n) == (2, 3)
    assert found.effect.estimate == 2 and found.effect.level == 0.95
    assert found.effect.high - 2 == pytest.approx(4.303 / 3**0.5, rel=1e-4)
    assert 2 - found.effect.low == pytest.approx(4.303 / 3**0.5, rel=1e-4)


@pytest.mark.parametrize("n", [2, 5, 30])
def test_paired_agrees_with_scipys_t_test(n):
    from scipy import stats

    rng = np.random.default_rng(n)
    a, b = rng.normal(0.5, 0.1, n), rng.normal(0.4, 0.1, n)
    wanted = stats.ttest_rel(a, b).confidence_interval(0.95)
    _, low, high, _ = paired(a, b).effect
    assert (low, high) == pytest.approx((wanted.low, wanted.high))


def test_intervals_hold_the_true_difference_nineteen_times_in_twenty():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        seed_effect = rng.normal(0, 5, 4)
        _, low, high, _ = paired(
            seed_effect + rng.normal(1, 0.2, 4), seed_effect
        ).effect
        held += low <= 1 <= high
    assert held / 2000 == pytest.approx(0.95, abs=0.02)


@each_interval
def test_one_pair_has_a_difference_but_no_interval(interval):
    found = paired([0.75], [0.5], interval)
    assert (found.mean, found.n, found.effect) == (0.25, 1, Interval(0.25))
    assert found.includes_zero is None and found.within_probes is None
    assert not found.decisive and found.note == "one seed, no interval"


@each_interval
def test_the_same_difference_everywhere_has_an_interval_that_decides_nothing(interval):
    found = paired([float(k) + 0.5 for k in range(7)], range(7), interval)
    assert found.effect[:3] == (0.5, 0.5, 0.5)
    assert found.includes_zero is False and not found.decisive
    assert found.note == "same difference for every seed"


@each_interval
def test_exchanged_methods_turn_the_sign_and_order_of_pairs_does_not_matter(interval):
    a, b = np.random.default_rng(1).normal(size=(2, 7)).tolist()
    one, other = paired(a, b, interval), paired(b, a, interval)
    assert other.effect.estimate == pytest.approx(-one.effect.estimate)
    ends = other.effect.low, other.effect.high
    assert ends == pytest.approx((-one.effect.high, -one.effect.low))
    assert (other.includes_zero, other.effect.level) == (
        one.includes_zero,
        one.effect.level,
    )
    assert paired(a[::-1], b[::-1], interval) == one


@each_interval
def test_equal_methods_differ_by_0_and_their_interval_includes_it(interval):
    found = paired([0.1, 0.7, 0.3], [0.1, 0.7, 0.3], interval)
    assert found.effect[:3] == (0, 0, 0)
    assert found.includes_zero and not found.decisive


@each_interval
def test_intervals_of_shifted_scores_are_shifted(interval):
    a, b = np.random.default_rng(2).normal(size=(2, 8))
    one, two = paired(a, b, interval).effect, paired(a + 3, b, interval).effect
    assert two[:3] == pytest.approx([x + 3 for x in one[:3]]) and two[3] == one[3]


def test_what_makes_no_pairs_is_refused():
    with pytest.raises(ValueError, match="longer"):
        paired([1], [1, 2])


# --- Wilcoxon -------------------------------------------------------------------------


def test_walsh_averages_of_three_values_by_hand():
    # 1, 2 and 6 have the averages 1, 1.5, 2, 3.5, 4, 6: median 2.75.
    assert wilcoxon_interval([6, 1, 2]) == Interval(2.75, 1, 6, 0.75)


@pytest.mark.parametrize("n, level", [(2, 0.5), (3, 0.75), (4, 0.875), (5, 0.9375)])
def test_few_seeds_state_the_level_that_they_attain(n, level):
    found = paired(range(1, n + 1), [0] * n, "wilcoxon")
    assert found.effect[1:] == (1, n, level)
    assert f"{n} seeds give {100 * level:.3g} % at most" in found.note
    assert not found.decisive


def test_printed_table_of_signed_ranks():
    # Critical values of T at two-sided 5 % for n = 6, 8, 10, 15: 0, 3, 8, 25.
    for n, critical in {6: 0, 8: 3, 10: 8, 15: 25}.items():
        d = np.random.default_rng(n).normal(size=n)
        walsh = sorted((d[i] + d[j]) / 2 for i in range(n) for j in range(i + 1))
        found = wilcoxon_interval(d)
        assert (found.low, found.high) == (walsh[critical], walsh[-critical - 1])
        assert 0.95 <= found.level < 0.97


@pytest.mark.parametrize("n", [6, 9, 12])
def test_the_interval_holds_what_scipys_exact_test_does_not_reject(n):
    from scipy import stats

    d = np.random.default_rng(n).normal(0.3, 1, n)
    found = wilcoxon_interval(d)
    width = 1e-9
    for end, inward in ((found.low, 1), (found.high, -1)):
        inside, outside = (
            stats.wilcoxon(d - end - side * inward * width, mode="exact").pvalue
            for side in (1, -1)
        )
        assert outside <= 0.05 < inside
        assert 1 - found.level == pytest.approx(outside)


def test_the_level_is_the_share_of_signs_by_enumeration():
    # Under symmetry all signs are equally likely; the interval misses the centre where
    # fewer than k Walsh averages lie on one side of it.
    sizes = np.array([0.3, 1.1, 2.0, 3.7, 4.1, 5.9, 7.3])
    held = [
        (found := wilcoxon_interval(np.array(signs) * sizes)).low <= 0 <= found.high
        for signs in product((-1, 1), repeat=len(sizes))
    ]
    assert np.mean(held) == found.level


# --- probes ---------------------------------------------------------------------------


def test_deviation_over_probes_is_pooled_over_models():
    # Variances 1 of three probes and 8 of two: (2 * 1 + 1 * 8) / 3.
    assert probe_std([[1, 2, 3], [10, 14]]) == pytest.approx((10 / 3) ** 0.5)
    assert probe_std([[5, 5], [7, 7]]) == 0


@pytest.mark.parametrize("probes", [[], [[]], [[1, 2], []], [[1, 2], [1]]])
def test_models_without_several_probes_do_not_tell_their_noise(probes):
    assert probe_std(probes) is None and probe_error(probes) is None
    assert difference_error([[1, 2]] * len(probes), probes) is None


def test_the_error_of_a_mean_is_the_deviation_by_the_root_of_the_probes():
    assert probe_error([[1, 2, 3], [6, 7, 8]]) == pytest.approx(1 / 3**0.5)
    # Two and four probes, both with the variance 2: sqrt(2 * (1/2 + 1/4) / 2).
    wide = 1.5**0.5
    probes = [[0, 2], [-wide, -wide, wide, wide]]
    assert probe_error(probes) == pytest.approx(0.75**0.5)


def test_errors_of_both_sides_are_combined_over_seeds():
    a, b = [[1, 2, 3]] * 4, [[2, 4, 6]] * 4
    assert difference_error(a, b) == pytest.approx(((1 + 4) / 3 / 4) ** 0.5)
    assert difference_error(a[:1], b[:1]) == pytest.approx((5 / 3) ** 0.5)
    assert difference_error(a, b) == difference_error(b, a)


def test_more_probes_make_less_noise():
    rng = np.random.default_rng(0)
    few, many = (rng.normal(0.5, 0.01, (3, n)).tolist() for n in (5, 500))
    assert difference_error(many, many) < difference_error(few, few) / 5


def test_the_error_of_probes_is_that_of_drawn_differences():
    rng = np.random.default_rng(3)
    a, b = rng.normal(0, 2, (4000, 3, 5)), rng.normal(0, 1, (4000, 3, 5))
    means = a.mean(axis=(1, 2)) - b.mean(axis=(1, 2))
    errors = [difference_error(*pair) for pair in zip(a, b, strict=True)]
    assert np.mean(np.square(errors)) ** 0.5 == pytest.approx(means.std(), rel=0.04)


def difference(estimate, low=1.0, high=3.0, level=0.95, probe_se=None):
    effect = Interval(estimate, low, high, level)
    return Difference(estimate, effect, 3, probe_se=probe_se)


def test_a_difference_below_two_errors_of_the_probes_is_within_their_noise():
    for estimate, within in ((1.99, True), (-1.99, True), (2.0, False), (2.01, False)):
        found = difference(estimate, probe_se=1.0)
        assert found.within_probes is within and found.probes_alone == 2
        assert found.decisive is not within
    assert difference(1.99, probe_se=1.0).note == "within probe noise"
    assert difference(2, -1, probe_se=2.0).note == (
        "interval includes 0; needs about 3 seeds; within probe noise"
    )
    assert difference(2.0).within_probes is None and difference(2.0).decisive


@pytest.mark.parametrize("low, high", [(0.0, 3.0), (-3.0, 0.0), (-1.0, 1.0)])
def test_an_interval_that_reaches_0_includes_it(low, high):
    found = difference(0.5, low, high)
    assert found.includes_zero and not found.decisive


def alike(n, mean, deviation):
    """n numbers with this mean and this standard deviation."""
    spread = np.linspace(-1, 1, n)
    return mean + deviation * spread / spread.std(ddof=1)


@pytest.mark.parametrize("mean", [0.31, -0.31, 0.9])
def test_the_seeds_needed_are_the_first_number_whose_interval_excludes_0(mean):
    found = paired(alike(3, mean, 1.0), np.zeros(3))
    needed = found.seeds_needed
    assert found.includes_zero and needed > 3
    assert f"needs about {needed} seeds" in found.note
    for n in range(2, needed + 2):
        assert paired(alike(n, mean, 1.0), np.zeros(n)).includes_zero is (n < needed)


def test_a_tiny_difference_needs_more_seeds_than_anyone_trains():
    found = paired(alike(3, 1e-3, 1.0), np.zeros(3))
    assert found.seeds_needed is None
    assert found.note == "interval includes 0; needs more than 1,000 seeds"


def test_other_intervals_do_not_tell_the_seeds_needed():
    found = paired(alike(7, 0.1, 1.0), np.zeros(7), "wilcoxon")
    assert found.includes_zero and found.seeds_needed is None
    assert found.note == "interval includes 0"


def test_the_text_has_the_level_where_it_is_not_95_percent():
    show = "{:+.1f}".format
    assert difference(2.0).text(show) == "+2.0 (+1.0 to +3.0)"
    assert difference(2.0, level=0.75).text(show) == "+2.0 (+1.0 to +3.0, 75 %)"
    assert difference(2.0, None, None, None).text(show) == "+2.0"
