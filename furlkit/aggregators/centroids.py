"""Global centroids from the clients' local centroids, which stand for many images each.

Lubana et al., "Orchestra: Unsupervised Federated Learning via Globally Consistent
Clustering", ICML 2022: the server clusters the clients' local centroids, into clusters of
equal size. Any rows with counts can be clustered so: prototypes without classes.

    x_i, n_i   unit rows of all clients, and the images that each stands for    (n, d), (n,)
    mu_k       global centroids, unit rows                                      (K, d)
    P_ik       how much of row i belongs to centroid k; sum_k P_ik = n_i / sum n

    mu_k <- unit(sum_i P_ik x_i)

P is the nearest centroid's, or, for clusters of equal size, the transport plan of
Sinkhorn and Knopp with sum_i P_ik = 1 / K. The first centroid is the row with the largest
count; each next one is the row that is farthest from those before. Nothing is drawn.
"""

import numpy as np

from furlkit.aggregators.dictionary import unit_rows

ROUNDS = 100  # Of Sinkhorn and Knopp's scaling.


def centroids(
    rows: np.ndarray,
    counts: np.ndarray,
    *,
    centroids: int,
    iterations: int,
    equal_sizes: bool,
    epsilon: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Cluster rows (n, d) of `counts` images; return centroids (K, d) and their counts."""
    x, mass = unit_rows(rows.astype(np.float64)), counts / counts.sum()
    mu = farthest_first(x, counts, centroids)
    before = None
    for _ in range(iterations):
        P = assigned(x @ mu.T, mass, epsilon if equal_sizes else None)
        sums = P.T @ x
        moved = np.linalg.norm(sums, axis=1) > 0  # An empty cluster stays in place.
        mu[moved] = unit_rows(sums[moved])
        nearest = P.argmax(axis=1)
        if before is not None and not equal_sizes and (nearest == before).all():
            break
        before = nearest
    held = np.bincount(nearest, weights=counts, minlength=len(mu))
    return mu.astype(rows.dtype), held.astype(np.int64)


def farthest_first(x: np.ndarray, counts: np.ndarray, K: int) -> np.ndarray:
    """K rows to start from: the largest, then each the farthest from those before."""
    places = [int(np.argmax(counts))]
    nearest = x @ x[places[0]]
    while len(places) < K:
        places.append(int(np.argmin(nearest)))
        nearest = np.maximum(nearest, x @ x[places[-1]])
    return x[places].copy()


def assigned(
    cosines: np.ndarray, mass: np.ndarray, epsilon: float | None
) -> np.ndarray:
    """P (n, K) with row sums `mass`; with `epsilon` all column sums are 1 / K."""
    K = cosines.shape[1]
    if epsilon is None:
        return np.eye(K)[cosines.argmax(axis=1)] * mass[:, None]
    P = np.exp((cosines - cosines.max(axis=1, keepdims=True)) / epsilon)
    for _ in range(ROUNDS):
        P *= (1 / K) / np.maximum(P.sum(axis=0), np.finfo(float).tiny)
        P *= (mass / P.sum(axis=1))[:, None]
    return P
