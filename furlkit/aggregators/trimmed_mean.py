"""Coordinate-wise trimmed mean of the clients' models.

Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
ICML 2018, Definition 2.

    beta     the share of the weight cut off at either end, below 1/2

Every number of the result is the mean of this number in the uploads, without the
largest and the smallest numbers. The rule withstands hostile clients with a weight of
at most beta. With equal weights and beta = b / m the b largest and the b smallest of m
numbers are cut; otherwise the weight beta, so a client at the border counts in part.

Memory is a slice of the uploads for each thread, a few MB; the uploads are read once.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from furlkit.aggregators.median import EPSILON, in_order, weighted_median
from furlkit.aggregators.uploads import Pieces, Uploads


def trimmed_mean(uploads: Uploads, *, trim: float) -> Pieces:
    """Yin et al., Definition 2, by weight; `trim` is beta."""

    def pieces(name: str) -> Iterator[np.ndarray]:
        shares = uploads.shares(name)
        return uploads.stacked(name, lambda stack: _trimmed(stack, shares, trim))

    return pieces


def _trimmed(stack: np.ndarray, shares: Sequence[float], beta: float) -> np.ndarray:
    """Trimmed mean of each column of (m, n); for counts, the median."""
    if stack.dtype.kind != "f":
        return weighted_median(stack, shares)
    values, weights = in_order(stack, shares)  # (n, m)
    kept = kept_shares(weights, beta)
    if kept.ndim == 1:
        values, kept = values[:, kept > 0], kept[kept > 0]
    total = (values * kept).sum(axis=1)
    return total.astype(stack.dtype)


def kept_shares(weights: np.ndarray, beta: float) -> np.ndarray:
    """Weights of numbers in order, after the weight beta is cut off at either end."""
    until = np.cumsum(weights, axis=-1)
    ends = (np.clip(each, beta, 1 - beta) for each in (until, until - weights))
    kept = np.subtract(*ends)
    # A remainder of 1e-17 times a number of 1e30 would not be small.
    kept[kept < EPSILON] = 0
    return kept / kept.sum(axis=-1, keepdims=True)
