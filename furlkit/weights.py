"""Arithmetic on the tensors of a model. What becomes of integers is decided here.

Sums are made in float64. Floating tensors come back in the type they are stored in.
Integer buffers (BatchNorm's `num_batches_tracked`) are never averaged: a mean of counts
is no count, so the largest one is taken and integers stay integers.
"""

from collections.abc import Iterable, Sequence

import numpy as np

_BATCHNORM_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def is_batchnorm_statistic(name: str) -> bool:
    """Whether a tensor is gathered by BatchNorm's forward pass rather than trained."""
    return name.rpartition(".")[2] in _BATCHNORM_STATISTICS


def weighted_sum(arrays: Iterable[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """sum_k shares[k] * arrays[k], in the order given and in the arrays' own type."""
    total = dtype = None
    for array, share in zip(arrays, shares, strict=True):
        if array.dtype.kind != "f":
            total = array.copy() if total is None else np.maximum(total, array)
            continue
        if total is None:
            dtype = array.dtype
            # -0.0 leaves every number as it is; 0.0 would make 0.0 of -0.0.
            total = np.full(array.shape, -0.0)
            product = np.empty(array.shape)
        # Three plain passes are faster than one that converts as it multiplies.
        np.copyto(product, array)
        product *= share
        total += product
    if total is None:
        raise ValueError("no arrays to sum")
    return total if dtype is None else total.astype(dtype)
