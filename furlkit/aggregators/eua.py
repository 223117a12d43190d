"""FedU2's efficient unified aggregator: every client's update counts in balance.

Liao et al., "Rethinking the Representation in Federated Unsupervised Learning with
Non-IID Data", CVPR 2024, EUA.

    w_g      the global model at the start of the round: --parent
    u_k      w_k - w_g, the update of client k
    d_k      u_k / ||u_k||
    lambda   weights of the clients, at least 0, with the sum 1

    lambda = argmin ||sum_k lambda_k d_k||^2
    mean:  w = w_g + sum_k a_k u_k,     a_k = (lambda_k / ||u_k||) / sum_l lambda_l / ||u_l||
    code:  w = w_g + eta 2 sum_k lambda_k d_k

The direction is the point of least length in the hull of the d_k: every client's distance
to the model falls, and at an equal rate for all clients with lambda_k > 0, so neither a
long update nor a majority decides alone.

The paper was not at hand; `code` is the authors' code, a step of fixed length. `mean`, our
choice, keeps the direction, and the result is a weighted mean of the models.

BatchNorm's statistics are averaged by --weights. Memory is a slice of the uploads for each
thread, a few MB, and the m x m products; the uploads are read twice.
"""

from collections.abc import Iterator
from itertools import chain

import numpy as np

from furlkit.aggregators.distances import inner_products
from furlkit.aggregators.median import blended
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import is_batchnorm_statistic


def eua(uploads: Uploads, *, length: str, lr: float) -> Pieces:
    """EUA with a step of this length; `lr` is eta, for `length` = code."""
    products = inner_products(uploads, parent=True)
    a = coefficients(update_products(products), length, lr)
    kept = [1 - a.sum(), *a.tolist()]

    def pieces(name: str) -> Iterator[np.ndarray]:
        if is_batchnorm_statistic(name):
            shares = uploads.shares(name)
            return uploads.combine(name, lambda column: blended(column, shares))

        def moved(column: Iterator[np.ndarray]) -> np.ndarray:
            parent = next(column).copy()
            return blended(chain([parent], column), kept)

        return uploads.combine(name, moved, parent=True)

    return pieces


def update_products(products: np.ndarray) -> np.ndarray:
    """<u_k, u_l>, (m, m), from the products of parent and uploads from any origin."""
    to_parent = products[0, 1:]
    shifted = products[1:, 1:] - to_parent[:, None] - to_parent[None]
    return shifted + products[0, 0]


def coefficients(G: np.ndarray, length: str, lr: float) -> np.ndarray:
    """Factors a_k of the updates, (m,), from G = <u_k, u_l>; 0 for an update of 0."""
    norms = np.sqrt(np.maximum(np.diag(G), 0))
    moved = norms > 0
    a = np.zeros(len(G))
    if not moved.any():
        return a
    norms, G = norms[moved], G[np.ix_(moved, moved)]
    per_length = least_norm_weights(G / np.outer(norms, norms)) / norms
    a[moved] = (
        2 * lr * per_length if length == "code" else per_length / per_length.sum()
    )
    return a


def least_norm_weights(G: np.ndarray) -> np.ndarray:
    """argmin lambda^T G lambda over lambda >= 0 with the sum 1, (m,).

    min ||V x||^2 + (sum(x) - 1)^2 over x >= 0, V^T V = G, has the solution x = s lambda:
    for every sum s the best x is s lambda.
    """
    from scipy.optimize import nnls

    values, vectors = np.linalg.eigh((G + G.T) / 2)
    V = np.sqrt(np.maximum(values, 0))[:, None] * vectors.T
    target = np.append(np.zeros(len(G)), 1.0)
    x, _ = nnls(np.vstack([V, np.ones(len(G))]), target)
    return x / x.sum()
