"""Ensemble similarity: similarities of images according to many models.

Shi et al., "Towards Communication-Efficient and Privacy-Preserving Federated
Representation Learning", FLESD, Eq. 4-6.

    R_k      unit representations of n public images by client k's model    (n, d_k)
    M_k      cosines between every two images, by client k                  (n, n)
    tau_T    the teachers' temperature
    beta     the share of the clients cut off at either end, below 1/2

The mean of Eq. 6 has no limit for a single client: exp(1 / tau_T) of a false pair
outweighs the others. A trimmed mean (Yin et al., Definition 2) is our addition.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from furlkit.aggregators.dictionary import repeat_warnings, unit_rows
from furlkit.aggregators.shared import Combined
from furlkit.aggregators.trimmed_mean import kept_shares

BLOCK = 1024  # Rows of M in memory.


def cosine_rows(upload: Any) -> Callable[[slice], np.ndarray]:
    """Return a function from a slice of rows to these rows of M_k."""
    if not hasattr(upload, "rows"):
        rows_of: Callable[[slice], np.ndarray] = upload.cosine_rows
        return rows_of
    unit = unit_rows(upload.rows)
    return lambda rows: unit[rows] @ unit.T


def kernels(uploads: Sequence[Any]) -> Combined:
    """Hetero-SSFL's mean kernel: the mean of the M_k, from cosines or rows."""
    index = uploads[0].index
    n, parts = len(index), [cosine_rows(upload) for upload in uploads]

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, n, BLOCK):
            yield ensemble(of(slice(start, start + BLOCK)) for of in parts).clip(-1, 1)

    owners = [[upload.facts.client or 0, n] for upload in uploads]
    return Combined(
        f"mean of {n} x {n} cosines",
        lambda: {"matrix": blocks(), "index": index},
        facts={"owners": owners, "examples": n},
        warnings=repeat_warnings([u for u in uploads if hasattr(u, "rows")]),
    )


def sharpened(cosines: Any, tau_T: float) -> Any:
    """FLESD Eq. 5, exp(M_k / tau_T), with every value over exp(1 / tau_T).

    A cosine is at most 1: no value overflows, and Eq. 8 divides the factor out. A
    cosine of -inf was not sent and gives 0. For arrays and for tensors.
    """
    scaled = (cosines - 1) / tau_T
    return np.exp(scaled) if isinstance(scaled, np.ndarray) else scaled.exp_()


def ensemble(similarities: Iterable[Any]) -> Any:
    """FLESD Eq. 6: M = mean_k exp(M_k / tau_T), with equal weights."""
    total, count = None, 0
    for similarity in similarities:
        total = similarity if total is None else total + similarity
        count += 1
    if total is None:
        raise ValueError("an ensemble of no models")
    return total / count


def trimmed_ensemble(stack: Any, trim: float) -> Any:
    """FLESD Eq. 6 with the trimmed mean of every number; `trim` is beta.

    `stack`: exp(M_k / tau_T) of m clients, (m, ...), an array or a tensor. exp keeps the
    order, so the largest and smallest cosines are cut off. Memory is a copy of `stack`.
    """
    m = len(stack)
    if isinstance(stack, np.ndarray):
        values = np.sort(stack, axis=0)
    else:
        values = stack.sort(dim=0).values
    kept = kept_shares(np.full(m, 1 / m), trim).tolist()
    return sum(
        share * value for share, value in zip(kept, values, strict=True) if share
    )
