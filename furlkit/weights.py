"""Arithmetic on the tensors of a model, including integer buffers.

Sums are computed in float64, and the result has the dtype of the inputs. Integer
buffers (BatchNorm's `num_batches_tracked`) are not averaged, since a mean of counts is
not a count: the result is their maximum.
"""

from collections.abc import Iterable, Sequence

import numpy as np

_BATCHNORM_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def is_batchnorm_statistic(name: str) -> bool:
    """Whether BatchNorm's forward pass computes this tensor, rather than training."""
    return name.rpartition(".")[2] in _BATCHNORM_STATISTICS


def weighted_sum(arrays: Iterable[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """sum_k shares[k] * arrays[k], in the given order, with the dtype of the arrays."""
    total = dtype = None
    for array, share in zip(arrays, shares, strict=True):
        if array.dtype.kind != "f":
            total = array.copy() if total is None else np.maximum(total, array)
            continue
        if total is None:
            dtype = array.dtype
            # Adding -0.0 changes no number, whereas -0.0 + 0.0 is 0.0.
            total = np.full(array.shape, -0.0)
            product = np.empty(array.shape)
        # Three plain passes are faster than one that converts as it multiplies.
        np.copyto(product, array)
        product *= share
        total += product
    if total is None:
        raise ValueError("no arrays to sum")
    return total if dtype is None else total.astype(dtype)
