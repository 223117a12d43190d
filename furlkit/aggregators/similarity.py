"""Ensemble similarity: similarities of images according to many models.

Shi et al., "Towards Communication-Efficient and Privacy-Preserving Federated
Representation Learning", FLESD, Eq. 4-6.

    R_k      unit representations of n public images by client k's model    (n, d_k)
    M_k      cosines between every two images, by client k                  (n, n)
    tau_T    the teachers' temperature
"""

from collections.abc import Iterable
from typing import Any

import numpy as np


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
