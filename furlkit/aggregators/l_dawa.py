"""L-DAWA: weight each layer by its angle to the layer of the global model.

Rehman et al., "L-DAWA: Layer-wise Divergence Aware Weight Aggregation in Federated
Self-Supervised Visual Representation Learning", ICCV 2023.

    w_g^l      layer l of the global model at the start of the round: --parent
    w_k^l      layer l of client k
    p_k        the share of client k: --weights
    delta_k^l  cos(w_k^l, w_g^l), at least 0

    w^l = sum_k p_k delta_k^l w_k^l / sum_k p_k delta_k^l

A layer is the set of tensors with equal names up to the last dot: a weight and a bias
share an angle, because a bias of zeros has no direction. BatchNorm's statistics do not
influence the angle, but have the layer's weight. The authors' code divides by the
number of clients, not by the sum, which shrinks every layer by the mean cosine
(`--scaling paper`), has angles by tensor, and reverses tensors with a cosine below 0.

Angles see directions, not lengths: angles do not outvote a scaled-up upload.

Memory is a slice of the uploads for each thread, a few MB; the uploads are read twice.
"""

from collections import defaultdict
from collections.abc import Iterator

import numpy as np

from furlkit.aggregators.median import blended
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import is_batchnorm_statistic


def l_dawa(uploads: Uploads, *, scaling: str) -> Pieces:
    """L-DAWA's weighted sum, layer by layer."""
    deltas = _deltas(uploads)

    def pieces(name: str) -> Iterator[np.ndarray]:
        weights = np.asarray(uploads.shares(name)) * deltas[_layer(name)]
        total = weights.sum()
        if not total > 0:  # Every client has turned this layer by 90 degrees or more.
            weights, total = np.asarray(uploads.shares(name)), 1.0
        if scaling == "shares" or is_batchnorm_statistic(name):
            weights = weights / total
        return uploads.combine(name, lambda column: blended(column, weights.tolist()))

    return pieces


def _deltas(uploads: Uploads) -> dict[str, np.ndarray]:
    """delta_k^l by layer, (m,) each."""
    count = len(uploads.clients)
    sums: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((2, count + 1)))
    for name in uploads.names:
        sums[_layer(name)] += 0.0
        if not is_batchnorm_statistic(name):
            for piece in uploads.stacked(name, _products, parent=True):
                sums[_layer(name)] += piece
    return {layer: _cosines(*found) for layer, found in sums.items()}


def _products(stack: np.ndarray) -> np.ndarray:
    """Products with the parent (the first row), and squared lengths; (2, m + 1)."""
    if stack.dtype.kind != "f":
        return np.zeros((2, len(stack)))
    wide = stack.astype(np.float64)
    return np.stack([wide @ wide[0], (wide * wide).sum(axis=1)])


def _cosines(products: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """cos(w_k^l, w_g^l), at least 0; 1 for a layer of zeros, without a direction."""
    lengths = np.sqrt(squares[1:] * squares[0])
    known = lengths > 0
    cosines = products[1:] / np.where(known, lengths, 1)
    return np.where(known, np.clip(cosines, 0, 1), 1.0)


def _layer(name: str) -> str:
    return name.rpartition(".")[0]
