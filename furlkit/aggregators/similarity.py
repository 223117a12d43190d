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

from collections.abc import Iterable
from typing import Any

import numpy as np

from furlkit.aggregators.trimmed_mean import kept_shares


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
