"""Products and distances between whole uploads, which several rules decide by.

Weights count, BatchNorm's statistics do not: they are on a scale of their own, and move
so much farther than weights in a round that nothing else would be seen.
"""

import numpy as np

from furlkit.aggregators.median import weighted_median
from furlkit.aggregators.uploads import Uploads
from furlkit.weights import is_batchnorm_statistic

# Nothing is larger: the square of a float64 may be infinite.
LARGEST = 1e200


def inner_products(
    uploads: Uploads, parent: bool = False, statistics: bool = False
) -> np.ndarray:
    """<w_i - c, w_j - c> between all uploads, (m, m); with `parent` it comes first.

    c is the coordinate-wise median of them all. Seen from there honest models are near,
    whatever others send, so that no small distance is a difference of large numbers.
    With `statistics` w is all of BatchNorm's in place of the weights.
    """
    count = len(uploads.clients) + parent
    total = np.zeros((count, count))
    for name in uploads.names:
        if is_batchnorm_statistic(name) == statistics:
            for piece in uploads.stacked(name, _of_slice, parent):
                total += piece
    return np.clip(np.nan_to_num(total, nan=0), -LARGEST, LARGEST)


def squared_distances(products: np.ndarray) -> np.ndarray:
    """||w_i - w_j||^2 from the inner products, (m, m)."""
    squares = np.diag(products)
    found = np.maximum(squares[:, None] + squares[None] - 2 * products, 0)
    np.fill_diagonal(found, 0)
    return found


def distances_from(products: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """||sum_i a_i w_i - w_k|| for every k, (m,); the coefficients a_i sum to 1."""
    apart = coefficients - np.eye(len(products))  # Row k: those of v - w_k.
    return np.sqrt(np.maximum((apart @ products * apart).sum(axis=1), 0))


def _of_slice(stack: np.ndarray) -> np.ndarray:
    """The products within a slice (m, n)."""
    if stack.dtype.kind != "f":
        return np.zeros((len(stack), len(stack)))
    middle = weighted_median(stack, [1 / len(stack)] * len(stack))
    with np.errstate(over="ignore", invalid="ignore"):
        moved = stack.astype(np.float64) - middle
        return moved @ moved.T
