"""Products and distances between whole uploads, for several rules.

Distances use weights and exclude BatchNorm's statistics: statistics have another scale
and move much farther than weights in a round, which would hide the weights.
"""

from collections.abc import Iterator

import numpy as np

from furlkit.aggregators.median import weighted_median
from furlkit.aggregators.uploads import Uploads
from furlkit.weights import is_batchnorm_statistic

# Upper limit of values: the square of a float64 may be infinite.
LARGEST = 1e200
# Rows of a matrix computed at once: 10 MB for 5,000 uploads.
ROWS = 256


def inner_products(uploads: Uploads, parent: bool = False) -> np.ndarray:
    """<w_i - c, w_j - c> between all uploads, (m, m); `parent` adds the parent first.

    c is the coordinate-wise median of the uploads. Honest models are near c, whatever
    hostile clients send, so a small distance is never a difference of large numbers.
    Memory is the matrix and a few rows.
    """
    count = len(uploads.clients) + parent
    total = np.zeros((count, count))
    for name in uploads.names:
        if not is_batchnorm_statistic(name):
            for moved in uploads.stacked(name, _from_median, parent):
                _add_products(total, moved)
    for rows in _blocks(count):
        # Copy the part below the diagonal to the part above.
        total[rows, rows.stop :] = total[rows.stop :, rows].T
        finite = np.nan_to_num(total[rows], nan=0)
        np.clip(finite, -LARGEST, LARGEST, out=total[rows])
    return total


def distances_from_median(uploads: Uploads, statistics: bool) -> np.ndarray:
    """||w_k - c|| for each upload, (m,); `statistics`: w is BatchNorm's statistics."""
    total = np.zeros(len(uploads.clients))
    for name in uploads.names:
        if is_batchnorm_statistic(name) == statistics:
            for moved in uploads.stacked(name, _from_median):
                total += _squares(moved)
    return _lengths(total)


def distances_from_parent(uploads: Uploads, statistics: float = 0.0) -> np.ndarray:
    """||w_k - w_g|| for each upload, (m,); w_g is the parent.

    `statistics`: factor for the changes of BatchNorm's statistics.
    """
    total = np.zeros(len(uploads.clients))
    for name in uploads.names:
        factor = statistics if is_batchnorm_statistic(name) else 1.0
        for moved in uploads.stacked(name, _from_first, parent=True) if factor else ():
            total += factor**2 * _squares(moved[1:])
    return _lengths(total)


def squared_distance_rows(products: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
    """||w_i - w_j||^2 from the inner products, some rows i at a time."""
    squares = np.diag(products)
    for rows in _blocks(len(products)):
        found = squares[rows, None] + squares[None] - 2 * products[rows]
        np.maximum(found, 0, out=found)
        found[np.arange(len(found)), np.arange(rows.start, rows.stop)] = 0
        yield rows, found


def distances_from(products: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """||sum_i a_i w_i - w_k|| for every k, (m,); the coefficients a_i sum to 1."""
    along = products @ coefficients  # <v, w_k>
    squares = coefficients @ along - 2 * along + np.diag(products)
    return np.sqrt(np.maximum(squares, 0))


def _blocks(count: int) -> Iterator[slice]:
    for start in range(0, count, ROWS):
        yield slice(start, min(start + ROWS, count))


def _from_median(stack: np.ndarray) -> np.ndarray:
    """Subtract the median from a slice (m, n), in float64; empty for counters."""
    if stack.dtype.kind != "f":
        return np.empty((len(stack), 0))
    middle = weighted_median(stack, [1 / len(stack)] * len(stack))
    return stack.astype(np.float64) - middle


def _from_first(stack: np.ndarray) -> np.ndarray:
    """Subtract the first row from a slice (m, n); empty for counters."""
    if stack.dtype.kind != "f":
        return np.empty((len(stack), 0))
    wide = stack.astype(np.float64)
    return wide - wide[0]


def _add_products(total: np.ndarray, moved: np.ndarray) -> None:
    """total += moved moved^T, on and below the diagonal."""
    with np.errstate(over="ignore", invalid="ignore"):
        for rows in _blocks(len(moved)):
            total[rows, : rows.stop] += moved[rows] @ moved[: rows.stop].T


def _squares(moved: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", invalid="ignore"):
        return np.einsum("kn,kn->k", moved, moved)


def _lengths(squares: np.ndarray) -> np.ndarray:
    return np.sqrt(np.clip(np.nan_to_num(squares, nan=0), 0, LARGEST))
