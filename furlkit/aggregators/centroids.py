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
The images of centroid k are sum_i P_ik of all images, in whole numbers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.mean import dominant, shares_of
from furlkit.aggregators.shared import Combined
from furlkit.errors import InputError

MOST_IMAGES = 10**12  # For which a row may stand.
ROUNDS = 100  # Of Sinkhorn and Knopp's scaling.


def check_upload(upload: Any) -> None:
    """Check that every row has a direction and a possible number of images."""
    counts = upload.counts
    if counts is None:
        raise InputError(
            f"{upload.path}: has no counts of a client's rows; --rule centroids reads "
            "local centroids with the number of images of each"
        )
    if not len(counts) or counts.min() < 1 or counts.max() > MOST_IMAGES:
        raise InputError(
            f"{upload.path}: a row stands for {counts.min(initial=0):,} to "
            f"{counts.max(initial=0):,} images; expected 1 to {MOST_IMAGES:,}"
        )
    if not np.linalg.norm(upload.rows, axis=1).min() > 0:
        raise InputError(f"{upload.path}: has a row of zeros, which has no direction")


def combine(uploads: Sequence[Any], **options: Any) -> Combined:
    """Centroids of the rows of all clients, with counts; warn about large claims."""
    rows = np.concatenate([upload.rows for upload in uploads])
    counts = [upload.counts for upload in uploads]
    K = min(options["centroids"], len(rows))

    def make() -> dict[str, np.ndarray]:
        mu, images = centroids(
            rows, np.concatenate(counts), **options | {"centroids": K}
        )
        return {"rows": mu, "counts": images, "index": np.arange(K)}

    return Combined(
        f"{K:,} centroid{'s' * (K > 1)} of {len(rows):,} rows",
        make,
        facts={"part": "centroids", "examples": K, "dataset": {}},
        warnings=(*_too_few(len(rows), options["centroids"]), *_large_claims(uploads)),
        data={"centroids": K},
    )


def _too_few(rows: int, K: int) -> tuple[str, ...]:
    """Warning about fewer rows than centroids: some clients share few centroids."""
    if rows >= K:
        return ()
    return (
        f"--centroids {K}: the clients share only {rows:,} rows, so there are {rows:,} "
        "centroids; have representations collapsed, or is --local-centroids too small?",
    )


def _large_claims(uploads: Sequence[Any]) -> tuple[str, ...]:
    shares = shares_of([float(upload.counts.sum()) for upload in uploads])
    place = dominant(shares)
    if place is None:
        return ()
    upload = uploads[place]
    return (
        f"{upload.path}: client {upload.facts.client} claims {shares[place]:.1%} of the "
        "images that the rows stand for",
    )


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
    return mu.astype(rows.dtype), whole_counts(P.sum(axis=0), counts.sum())


def whole_counts(shares: np.ndarray, total: float) -> np.ndarray:
    """Images of the clusters (K,): whole numbers with the sum `total`, near the shares.

    The largest remainders are rounded up.
    """
    exact = shares / shares.sum() * total
    held = np.floor(exact + 1e-6).astype(np.int64)
    missing = int(total) - int(held.sum())
    held[np.argsort(held - exact, kind="stable")[:missing]] += 1
    return held


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
