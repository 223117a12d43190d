"""Geometric median of the clients' models.

Pillutla et al., "Robust Aggregation for Federated Learning", RFA, IEEE TSP 2022: the
smoothed algorithm of Weiszfeld.

    v        the point with the smallest weighted sum of distances to the uploads
    alpha_k  the weight of client k: --weights
    nu       lower limit of distances

    v <- sum_k beta_k w_k / sum_k beta_k,    beta_k = alpha_k / max(nu, ||v - w_k||)

v is a weighted mean of the uploads in every step, so the inner products of the uploads
determine the weights. BatchNorm's statistics would dominate the products; their
coordinate-wise median is used. Memory is a slice of the uploads for each thread, a few
MB, and the m x m products; the uploads are read twice, for any number of steps.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from furlkit.aggregators.distances import distances_from, inner_products
from furlkit.aggregators.median import blended, median_of
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import is_batchnorm_statistic

STEPS = 1000
TOLERANCE = 1e-9  # Relative to the distance of the nearer half of the uploads.


def geometric_median(uploads: Uploads, *, smoothing: float) -> Pieces:
    """RFA, until v converges; `smoothing` is nu."""
    alpha = uploads.shares(uploads.names[0])
    beta = weiszfeld(inner_products(uploads), alpha, smoothing).tolist()

    def pieces(name: str) -> Iterator[np.ndarray]:
        if is_batchnorm_statistic(name):
            return median_of(uploads, name)
        return uploads.combine(name, lambda column: blended(column, beta))

    return pieces


def weiszfeld(G: np.ndarray, alpha: Sequence[float], nu: float) -> np.ndarray:
    """Weights of the uploads in the geometric median, (m,), with the sum 1.

    `G`: inner products of the uploads, from any origin.
    """
    weights = np.asarray(alpha, np.float64)
    beta = weights / weights.sum()
    for _ in range(STEPS):
        apart = np.maximum(nu, distances_from(G, beta))
        pull = weights / apart
        last, beta = beta, pull / pull.sum()
        step = beta - last
        if step @ G @ step <= (TOLERANCE * np.median(apart)) ** 2:
            break
    return beta
