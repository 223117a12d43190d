"""The dictionary of FedCA: rows of all clients, which are negatives for each of them.

Zhang et al., "Federated Unsupervised Representation Learning", FedCA, Eq. 9-10 and
Algorithm 1. A client averages the projections of its own images over rounds, keeps them
and shares some of the rows; together these are the next dictionary.

    Z        averaged features, one row for each image, 0 before round 1    (n, d)
    z        projections of the images                                      (n, d)
    alpha    how much of the past is kept, 0 <= alpha < 1
    K, m     rows of the dictionary, clients that share rows

z is computed by the client's trained model (Algorithm 1, line 5), or by the global model
that the client was given: so the text has it for a dictionary without averaging, alpha 0.
With the global model and alpha above 0, Eq. 9 averages the global models' z.
"""

from collections.abc import Sequence

import numpy as np


def average_features(Z: np.ndarray, z: np.ndarray, alpha: float) -> np.ndarray:
    """FedCA Eq. 9: Z <- alpha Z + (1 - alpha) z. With alpha = 0 it is z itself."""
    if Z.shape != z.shape:
        raise ValueError(f"Z {Z.shape} and z {z.shape}: not the same images")
    return (alpha * Z + (1 - alpha) * z).astype(z.dtype)


def unit_rows(Z: np.ndarray) -> np.ndarray:
    """FedCA Eq. 10: Z_i / ||Z_i||; the correction 1 / (1 - alpha^t) cancels.

    A row of zeros has no direction and stays as it is.
    """
    length = np.linalg.norm(Z, axis=1, keepdims=True)
    return (Z / np.maximum(length, np.finfo(Z.dtype).tiny)).astype(Z.dtype)


def rows_to_share(size: int, participants: int) -> int:
    """ceil(K / m): how many rows each of m clients gives to a dictionary of K."""
    return -(-size // participants)


def shared_rows(Z: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """FedCA Eq. 10 for `count` rows of Z, drawn at random (all, if there are fewer).

    Rows of zeros, as a collapsed model gives them, have no direction and are left out.
    """
    chosen = Z[rng.choice(len(Z), min(count, len(Z)), replace=False)]
    return unit_rows(chosen[np.abs(chosen).max(axis=1) > 0])


def dictionary(rows: Sequence[np.ndarray], size: int) -> list[np.ndarray]:
    """FedCA, Algorithm 1, server, line 9: the clients' rows, one after the other.

    `rows` are each client's, in client order. At most `size` = K rows are kept: the
    last ones are cut off, client by client.
    """
    kept, room = [], size
    for given in rows:
        kept.append(given[:room])
        room -= len(kept[-1])
    return kept
