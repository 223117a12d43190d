"""Entropy reduction averaging: classes of public images according to many models.

Itahara et al., "Distillation-Based Semi-Supervised Federated Learning for
Communication-Efficient Collaborative Training with Non-IID Private Data", IEEE TMC 2021,
DS-FL.

    p_k    probabilities of the classes of n public images, by client k    (n, C)
    T      temperature; a smaller T sharpens the mean of the p_k
"""

from collections.abc import Iterable

import numpy as np


def mean_probabilities(probabilities: Iterable[np.ndarray]) -> np.ndarray:
    """1/K sum_k p_k, in float64, in the given order, with equal weights."""
    total, count = None, 0
    for rows in probabilities:
        wide = rows.astype(np.float64)
        total = wide if total is None else total + wide
        count += 1
    if total is None:
        raise ValueError("a mean of no clients")
    return total / count


def entropy_reduced(p: np.ndarray, T: float) -> np.ndarray:
    """DS-FL's sharpening, softmax(p / T) of the mean probabilities, by row."""
    scaled = (p - p.max(axis=1, keepdims=True)) / T
    weights = np.exp(scaled)
    return weights / weights.sum(axis=1, keepdims=True)
