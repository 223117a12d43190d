import numpy as np
import pytest

from furlkit.reports.summary import Difference, Line, paired, summarise


def test_summarise_gives_mean_sample_deviation_and_count():
    assert summarise([1.0, 2.0, 6.0]) == (3.0, 7**0.5, 3)
    assert summarise([0.25]) == (0.25, None, 1)


def test_summarise_gives_the_same_bits_in_any_order():
    values = np.random.default_rng(0).normal(size=50)
    for order in (values[::-1], np.roll(values, 17)):
        assert summarise(order) == summarise(values)


def test_a_line_has_no_deviation_where_there_is_one_run():
    line = Line.of("a", [10, 20], [1, 2], [summarise([0.5]), summarise([1, 2])])
    assert line.to_json(bytes=line.x) == {
        "label": "a", "rounds": [1, 2], "bytes": [10, 20], "mean": [0.5, 1.5],
        "std": [0, 0.5**0.5], "runs": [1, 2],
    }  # fmt: skip


def test_paired_gives_the_interval_of_a_printed_t_table():
    # Differences 1, 2, 3: mean 2, deviation 1; t of 2 degrees of freedom is 4.303.
    found = paired([11, 22, 33], [10, 20, 30])
    assert (found.mean, found.n) == (2, 3)
    assert found.high - 2 == pytest.approx(4.303 / 3**0.5, rel=1e-4)
    assert 2 - found.low == pytest.approx(4.303 / 3**0.5, rel=1e-4)


@pytest.mark.parametrize("n", [2, 5, 30])
def test_paired_agrees_with_scipys_t_test(n):
    from scipy import stats

    rng = np.random.default_rng(n)
    a, b = rng.normal(0.5, 0.1, n), rng.normal(0.4, 0.1, n)
    wanted = stats.ttest_rel(a, b).confidence_interval(0.95)
    found = paired(a, b)
    assert (found.low, found.high) == pytest.approx((wanted.low, wanted.high))


def test_intervals_hold_the_true_difference_nineteen_times_in_twenty():
    rng = np.random.default_rng(0)
    held = 0
    for _ in range(2000):
        seed_effect = rng.normal(0, 5, 4)
        found = paired(seed_effect + rng.normal(1, 0.2, 4), seed_effect)
        held += found.low <= 1 <= found.high
    assert held / 2000 == pytest.approx(0.95, abs=0.02)


def test_one_pair_has_a_difference_but_no_interval():
    assert paired([0.75], [0.5]) == Difference(0.25, None, None, 1)


def test_same_difference_everywhere_has_an_interval_of_no_width():
    assert paired([1.5, 2.5], [1.0, 2.0]) == Difference(0.5, 0.5, 0.5, 2)


def test_exchanged_methods_turn_the_sign_and_order_of_pairs_does_not_matter():
    a, b = [0.1, 0.7, 0.3], [0.2, 0.1, 0.9]
    one, other = paired(a, b), paired(b, a)
    assert (other.low, other.high) == pytest.approx((-one.high, -one.low))
    assert paired(a[::-1], b[::-1]) == one


def test_what_makes_no_pairs_is_refused():
    with pytest.raises(ValueError, match="longer"):
        paired([1], [1, 2])
