"""The ensemble Z: a client's projections of its own images, averaged over rounds.

Zhang et al., "Federated Unsupervised Representation Learning", FedCA, Eq. 9-10. The
client keeps Z and shares some of its rows; together they are the next dictionary.

    Z        the ensemble, a row an image, 0 before the first round     (n, d)
    z        what the client's trained model makes of the images        (n, d)
    alpha    how much of the past is kept, 0 <= alpha < 1
"""

import numpy as np


def accumulate(Z: np.ndarray, z: np.ndarray, alpha: float) -> np.ndarray:
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
