"""Masked sums: fixed-point numbers modulo 2^64."""

import numpy as np
import pytest

from furlkit.aggregators.masked_sum import (
    BITS,
    LARGEST,
    MOST,
    add_mask,
    fixed_point,
    masked_mean,
    sum_of,
)

F32 = np.dtype("float32")


def masked(numbers, seed=0):
    """Mask numbers of several sites, by the definition."""
    rng, sites = np.random.default_rng(seed), [x.copy() for x in numbers]
    for k, one in enumerate(sites):
        for other in sites[k + 1 :]:
            mask = rng.integers(0, 2**64, one.shape, np.uint64)
            add_mask(one, mask, first=True)
            add_mask(other, mask, first=False)
    return sites


def test_known_values():
    x = np.array([1.5, -0.25, 0.0], np.float32)
    assert fixed_point(x, 1, 2).view(np.int64).tolist() == [6, -1, 0]
    assert fixed_point(x, 3, 2).view(np.int64).tolist() == [18, -3, 0]
    column = [fixed_point(x, 1, 2), fixed_point(x, 3, 2)]
    assert sum_of(column).tolist() == [24, -4, 0]
    assert masked_mean(column, 2, 4, 2, F32).tolist() == x.tolist()


def test_masks_wrap_and_cancel():
    numbers = [fixed_point(np.array([k - 2.0, 1e6 * k]), 1, 32) for k in range(5)]
    assert sum_of(masked(numbers)).tolist() == sum_of(numbers).tolist()


def test_whole_numbers_are_rounded_means():
    column = [fixed_point(np.array([n]), 1, 32) for n in (3, 4, 4)]
    assert masked_mean(column, 3, 3, 32, np.dtype("int64")).tolist() == [4]


@pytest.mark.parametrize("bits", BITS.values())
@pytest.mark.parametrize("sign", [1, -1])
def test_the_largest_numbers_of_the_most_sites_do_not_overflow(bits, sign):
    x = np.ldexp(np.array([sign * float(LARGEST)]), -bits)
    column = masked([fixed_point(x, 1, bits)] * MOST)
    mean = masked_mean(column, MOST, MOST, bits, np.dtype("float64"))
    assert mean.tolist() == x.tolist()


@pytest.mark.parametrize("x", [2.0**24 + 1, -(2.0**25), np.inf, np.nan])
def test_larger_numbers_are_refused_before_masking(x):
    with pytest.raises(OverflowError):
        fixed_point(np.array([0.0, x]), 1, 32)


def test_a_sum_of_a_missing_site_is_refused():
    column = masked([fixed_point(np.ones(64), 1, 32)] * 4)
    with pytest.raises(OverflowError, match="cancel"):
        masked_mean(column[1:], 3, 3, 32, F32)
