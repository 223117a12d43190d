"""Products and distances between whole uploads, which several rules decide by.

All floating-point tensors count, BatchNorm's statistics too: a client that changed them
alone would otherwise be as near as any. Counters do not.
"""

import numpy as np

from furlkit.aggregators.median import weighted_median
from furlkit.aggregators.uploads import Uploads

# Nothing is larger: the square of a float64 may be infinite.
LARGEST = 1e200


def inner_products(uploads: Uploads, parent: bool = False) -> np.ndarray:
    """<w_i - c, w_j - c> between all uploads, (m, m); with `parent` it comes first.

    c is the coordinate-wise median of them all. Seen from there honest models are near,
    whatever others send, so that no small distance is a difference of large numbers.
    """
    count = len(uploads.clients) + parent
    total = np.zeros((count, count))
    for name in uploads.names:
        for piece in uploads.stacked(name, _of_slice, parent):
            total += piece
    return np.clip(np.nan_to_num(total, nan=0), -LARGEST, LARGEST)


def squared_distances(products: np.ndarray) -> np.ndarray:
    """||w_i - w_j||^2 from the inner products, (m, m)."""
    squares = np.diag(products)
    found = np.maximum(squares[:, None] + squares[None] - 2 * products, 0)
    np.fill_diagonal(found, 0)
    return found


def _of_slice(stack: np.ndarray) -> np.ndarray:
    """The products within a slice (m, n)."""
    if stack.dtype.kind != "f":
        return np.zeros((len(stack), len(stack)))
    middle = weighted_median(stack, [1 / len(stack)] * len(stack))
    with np.errstate(over="ignore", invalid="ignore"):
        moved = stack.astype(np.float64) - middle
        return moved @ moved.T
