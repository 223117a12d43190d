"""Entropy reduction averaging: classes of public images according to many models.

Itahara et al., "Distillation-Based Semi-Supervised Federated Learning for
Communication-Efficient Collaborative Training with Non-IID Private Data", IEEE TMC 2021,
DS-FL.

    p_k    probabilities of the classes of n public images, by client k    (n, C)
    T      temperature; a smaller T sharpens the mean of the p_k
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from furlkit.aggregators.shared import Combined


def probabilities(uploads: Sequence[Any], *, temperature: float) -> Combined:
    """The sharpened mean of the uploads' rows p_k."""
    index = uploads[0].index

    def make() -> dict[str, np.ndarray]:
        p = mean_probabilities(upload.rows for upload in uploads)
        rows = entropy_reduced(p, temperature).astype(np.float32)
        return {"rows": rows, "index": index}

    clients = [upload.facts.client for upload in uploads]
    return Combined(
        f"probabilities of {len(index):,} images",
        make,
        facts={"examples": len(index), "parent": None, "personal": None},
        data={"images": len(index), "clients": clients},
    )


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
