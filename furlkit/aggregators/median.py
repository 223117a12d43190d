"""The coordinate-wise median of the clients' models.

Yin et al., "Byzantine-Robust Distributed Learning: Towards Optimal Statistical Rates",
ICML 2018, Definition 1.

Every number of the result is the median of that number in the uploads, so up to half of
the weight can be hostile. With `--weights` it is the weighted median: half of the weight
is at or below it, half at or above. If exactly half is, it is the middle between two
numbers, so that equal weights give the ordinary median.

Memory is a slice of all uploads for each thread, a few MB; the uploads are read once.
"""

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import weighted_sum

# Sums of shares are off by less; a share below it counts nothing.
EPSILON = 1e-9


def median(uploads: Uploads) -> Pieces:
    """Yin et al., Definition 1: med{x_k} of each number, by weight."""

    return lambda name: median_of(uploads, name)


def median_of(uploads: Uploads, name: str) -> Iterator[np.ndarray]:
    """The median of one tensor; other rules take it for BatchNorm's statistics."""
    shares = uploads.shares(name)
    return uploads.stacked(name, lambda stack: weighted_median(stack, shares))


def weighted_median(stack: np.ndarray, shares: Sequence[float]) -> np.ndarray:
    """The median of each column of (m, n); a count is one of the counts, the lower one."""
    values, weights = in_order(stack, shares)  # (n, m)
    below = np.cumsum(weights, axis=-1)  # The last one is 1.
    low = _at(values, (below >= 0.5 - EPSILON).argmax(axis=-1))
    if stack.dtype.kind != "f":
        return low
    high = _at(values, (below > 0.5 + EPSILON).argmax(axis=-1))
    return ((low.astype(np.float64) + high) / 2).astype(stack.dtype)


def in_order(
    stack: np.ndarray, shares: Sequence[float]
) -> tuple[np.ndarray, np.ndarray]:
    """Each column of (m, n) as a sorted row, (n, m), and what its numbers count.

    Where all count alike the weights are one row for all, (m,): numbers alone are
    sorted several times faster than numbers that bring their weights.
    """
    # A copy even of one column, whose transpose is contiguous: it is sorted in place.
    rows, weights = stack.T.copy(), np.asarray(shares)
    if np.ptp(weights) <= EPSILON / len(weights):
        rows.sort(axis=1)
        return rows, np.full(len(weights), 1 / len(weights))
    order = rows.argsort(axis=1)
    return np.take_along_axis(rows, order, axis=1), weights[order]


def _at(rows: np.ndarray, places: np.ndarray) -> np.ndarray:
    """The number of each row at a place, which may be the same for all."""
    if places.ndim == 0:
        return rows[:, places]
    return np.take_along_axis(rows, places[:, None], axis=1)[:, 0]


def blended(column: Iterator[np.ndarray], weights: Sequence[float]) -> np.ndarray:
    """A weighted sum for rules that trust nobody: of counts it is their median.

    The mean takes the largest count, which one client could set as it likes.
    """
    first = next(column)
    if first.dtype.kind == "f":
        return weighted_sum(chain([first], column), weights)
    counts = np.stack([array.copy() for array in chain([first], column)])
    flat = counts.reshape(len(counts), -1)
    return weighted_median(flat, [1 / len(flat)] * len(flat)).reshape(first.shape)
