"""Masked sums: the server adds masked uploads and learns nothing but the sum.

Bonawitz et al., "Practical Secure Aggregation for Privacy-Preserving Machine Learning",
CCS 2017, masking with one-time pads. All sites take part; there is no
recovery of sites that drop out.

    x_k     numbers of site k, times the weight w_k, as whole multiples of 2^-bits
    m_kj    mask of the pair k < j: uniform whole numbers, secret of both sites
    y_k     x_k + sum_{j > k} m_kj - sum_{j < k} m_jk         modulo 2^64

Every mask is added once and subtracted once: sum_k y_k = sum_k x_k modulo 2^64. At most
20 sites send at most 2^56 in size, so the sum is below 2^61 and never wraps.
"""

from collections.abc import Iterable, Iterator

import numpy as np

FEWEST, MOST = 3, 20  # Sites; with two sites, each site could compute the other's x.
LARGEST = 2**56  # Size of a whole number before masking.
# With `examples`, w_k divides the rounding of site k, and x_k needs more digits in front.
BITS = {"uniform": 32, "examples": 24}


def fixed_point(x: np.ndarray, w: int, bits: int) -> np.ndarray:
    """x_k = round(w x 2^bits) modulo 2^64; raise OverflowError beyond LARGEST."""
    scaled = np.ldexp(x.astype(np.float64) * w, bits)
    largest = np.abs(scaled).max(initial=0)
    if not largest <= LARGEST:  # Also refuses NaN.
        raise OverflowError(
            f"{np.ldexp(largest, -bits):.6g} with the weight, expected at most "
            f"{np.ldexp(float(LARGEST), -bits):.6g}"
        )
    # asarray, because numpy returns a scalar for a tensor without dimensions.
    return np.asarray(np.rint(scaled)).astype(np.int64).view(np.uint64)


def add_mask(y: np.ndarray, mask: np.ndarray, first: bool) -> None:
    """Add the mask of a pair to y in place; the second site of the pair subtracts."""
    # numpy's unsigned numbers wrap modulo 2^64.
    (np.add if first else np.subtract)(y, mask, out=y)


def sum_of(column: Iterable[np.ndarray]) -> np.ndarray:
    """sum_k y_k as signed numbers, from the y_k of every site."""
    arrays: Iterator[np.ndarray] = iter(column)
    total = next(arrays).astype(np.uint64)
    for y in arrays:
        total += y
    return total.view(np.int64)


def masked_mean(
    column: Iterable[np.ndarray], sites: int, weight: int, bits: int, dtype: np.dtype
) -> np.ndarray:
    """sum_k x_k / weight; raise OverflowError for a sum that no sites could send.

    Whole numbers, such as counters of BatchNorm, are rounded means.
    """
    total, most = sum_of(column), sites * LARGEST
    if np.any((total > most) | (total < -most)):
        raise OverflowError("the masks do not cancel")
    mean = np.ldexp(total / float(weight), -bits)
    return (mean if dtype.kind == "f" else np.rint(mean)).astype(dtype)
