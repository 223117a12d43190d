"""Coordinate-wise median of the clients' models.

Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
ICML 2018, Definition 1.

Every number of the result is the median of this number in the uploads: up to half of
the weight can be hostile. With `--weights` the median is weighted: half of the weight
is at or below the median, half at or above. If exactly half is below, the result is the
middle between two numbers, so equal weights give the ordinary median.

Memory is a slice of the uploads for each thread, a few MB; the uploads are read once.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import weighted_sum

# Upper limit of rounding errors in sums of shares; smaller shares have no effect.
EPSILON = 1e-9


def median(uploads: Uploads) -> Pieces:
    """Yin et al., Definition 1: med{x_k} of each number, by weight."""

    return lambda name: median_of(uploads, name)


def median_of(uploads: Uploads, name: str) -> Iterator[np.ndarray]:
    """Median of a tensor; also used by other rules for BatchNorm's statistics."""
    shares = uploads.shares(name)
    return uploads.stacked(name, lambda stack: weighted_median(stack, shares))


def weighted_median(stack: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """Median of each column of (m, n); for counts, the lower of two middle counts."""
    values, weights = in_order(stack, shares)  # (n, m)
    below = np.cumsum(weights, axis=-1)  # The last number is 1.
    low = _at(values, (below >= 0.5 - EPSILON).argmax(axis=-1))
    if stack.dtype.kind != "f":
        return low
    high = _at(values, (below > 0.5 + EPSILON).argmax(axis=-1))
    return ((low.astype(np.float64) + high) / 2).astype(stack.dtype)


def in_order(
    stack: np.ndarray, shares: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Each column of (m, n) sorted into a row, (n, m), and the weights of the numbers.

    Equal weights are returned as a single row, (m,): sorting numbers alone is several
    times faster than sorting numbers with weights.
    """
    # Copy even a single column, whose transpose is contiguous: the sort is in place.
    rows, weights = stack.T.copy(), np.asarray(shares)
    if np.ptp(weights) <= EPSILON / len(weights):
        rows.sort(axis=1)
        return rows, np.full(len(weights), 1 / len(weights))
    order = rows.argsort(axis=1)
    return np.take_along_axis(rows, order, axis=1), weights[order]


def _at(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Number of each row at a place; one place may serve all rows."""
    if places.ndim == 0:
        return rows[:, places]
    return np.take_along_axis(rows, places[:, None], axis=1)[:, 0]


def blended(column: Iterator[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """Weighted sum for robust rules; for counts, the median.

    The mean takes the largest count, which a single client could set at will.
    """
    first = next(column)
    if first.dtype.kind == "f":
        return weighted_sum(chain([first], column), weights)
    counts = np.stack([array.copy() for array in chain([first], column)])
    flat = counts.reshape(len(counts), -1)
    return weighted_median(flat, [1 / len(flat)] * len(flat)).reshape(first.shape)
