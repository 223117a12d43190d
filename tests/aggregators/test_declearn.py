"""Masked sums against declearn's implementation, if the package is installed."""

from itertools import combinations

import numpy as np
import pytest

from furlkit.aggregators.masked_sum import add_mask, fixed_point, masked_mean

masking = pytest.importorskip(
    "declearn.secagg.masking", reason="pip install declearn", exc_type=ImportError
)
BITS = 32


def mean_by_furlkit(x: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """Mean over sites of x (sites, n), from masked numbers."""
    y = [fixed_point(row, 1, BITS) for row in x]
    rng = np.random.default_rng(1)
    for first, second in pairs:
        mask = rng.integers(2**64, dtype=np.uint64, size=x.shape[1])
        add_mask(y[first], mask, first=True)
        add_mask(y[second], mask, first=False)
    return masked_mean(y, len(x), len(x), BITS, np.dtype(np.float64))


def mean_by_declearn(x: np.ndarray, pairs: list[tuple[int, int]]) -> np.ndarray:
    """The same mean; the number of a pair is the seed of the pair's mask."""
    sites, sums = len(x), None
    for site, row in enumerate(x):
        plus = [seed for seed, (first, _) in enumerate(pairs) if first == site]
        minus = [seed for seed, (_, second) in enumerate(pairs) if second == site]
        encrypter = masking.MaskingEncrypter(plus, minus, clipval=100.0)
        values, specs = encrypter.encrypt_numpy_array(row)
        sums = [values] if sums is None else [*sums, values]
    decrypter = masking.MaskingDecrypter(sites, clipval=100.0)
    total = [
        decrypter.sum_encrypted(list(column)) for column in zip(*sums, strict=True)
    ]
    return decrypter.decrypt_numpy_array(total, specs) / sites


@pytest.mark.parametrize("sites", [3, 10, 20])
def test_both_implementations_give_the_mean(sites):
    x = np.random.default_rng(sites).normal(size=(sites, 50))
    pairs = [*combinations(range(sites), 2)]
    ours, theirs = mean_by_furlkit(x, pairs), mean_by_declearn(x, pairs)
    assert np.abs(ours - theirs).max() < 2**-20
    assert np.abs(ours - x.mean(axis=0)).max() < 2**-20
