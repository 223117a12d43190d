"""FedSC's server: the mean of the clients' correlation matrices.

Jing et al., "FedSC: Provable Federated Self-supervised Learning with Spectral Contrastive
Objective over Non-i.i.d. Data", ICML 2024. All clients have equal weights, like in the
authors' program.

    R_k       mean of z z^T over the images of client k           (d, d)
    K         number of clients
    R_mean    sum_k R_k / K

A client needs the mean of the others, (K R_mean - R_k) / (K - 1).
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from furlkit.aggregators.shared import Combined


def correlations(uploads: Sequence[Any]) -> Combined:
    """The mean of the uploads' R, with the number of clients."""
    matrices = [upload.tensors["R"] for upload in uploads]
    d = len(matrices[0])
    return Combined(
        f"mean of {d} x {d} correlations",
        lambda: {"R": mean_correlations(matrices)},
        facts={"clients": len(uploads)},
    )


def mean_correlations(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """R_mean, summed in float64 in the order of the clients."""
    total = np.zeros(matrices[0].shape)
    for R in matrices:
        total += R
    return (total / len(matrices)).astype(matrices[0].dtype)


def without_own(R_mean: np.ndarray, R_k: np.ndarray, K: int) -> np.ndarray:
    """Mean of the K - 1 other clients, given the mean of K clients and R_k."""
    others = (K * R_mean.astype(np.float64) - R_k) / (K - 1)
    return others.astype(R_mean.dtype)
