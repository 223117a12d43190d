"""Membership inference: was an image used to train an encoder?

Liu et al., "EncoderMI: Membership Inference against Pre-trained Encoders in Contrastive
Learning", CCS 2021: training pulls the augmented views of an image together, so the
features of views of a member are more similar than of other images. Two further scores
use the loss of contrastive training and the length of the features.

    z        features of V views of n candidates       (V, n, d)
    u        rows of z, divided by their lengths
    tau      temperature of the loss

With the features of the model before training (--parent), a score is the difference
between both models: images that are easy for every model do not look like members.
"""

from collections.abc import Mapping

import numpy as np

TINY = 1e-12


def unit(z: np.ndarray) -> np.ndarray:
    """Rows of length 1."""
    return z / np.maximum(np.linalg.norm(z, axis=-1, keepdims=True), TINY)


def view_similarity(z: np.ndarray) -> np.ndarray:
    """EncoderMI-T: mean cosine of the pairs of views of an image, (n).

    sum over a != b of u_a u_b = |sum of u|^2 - V, divided by V (V - 1).
    """
    views = len(z)
    total = np.square(unit(z).sum(axis=0)).sum(axis=1)
    return (total - views) / (views * (views - 1))


def contrastive_gain(z: np.ndarray, tau: float) -> np.ndarray:
    """Negative loss of SimCLR's contrast, with the first view as key, (n).

    Negatives are the first views of the other candidates; mean over the other views.
    """
    u = unit(z)
    keys, n = u[0], len(u[0])
    gains = np.zeros(n)
    for view in u[1:]:
        cosines = view @ keys.T / tau  # (n, n)
        positive = cosines.diagonal().copy()
        np.fill_diagonal(cosines, -np.inf)
        top = cosines.max(axis=1)
        gains += positive - top - np.log(np.exp(cosines - top[:, None]).sum(axis=1))
    return gains / (len(u) - 1)


def feature_length(z: np.ndarray) -> np.ndarray:
    """Mean logarithm of the length of z over the views, (n)."""
    return np.log(np.linalg.norm(z, axis=2) + TINY).mean(axis=0)


def scores(
    z: np.ndarray, tau: float, parent: np.ndarray | None = None
) -> dict[str, np.ndarray]:
    """Scores of n candidates by name; with z of the parent, differences of scores."""
    found = {
        "similarity": view_similarity(z),
        "loss": contrastive_gain(z, tau),
        "features": feature_length(z),
    }
    if parent is None:
        return found
    before = scores(parent, tau)
    return {name: value - before[name] for name, value in found.items()}


def combined(found: Mapping[str, np.ndarray]) -> np.ndarray:
    """Mean of the standardised scores: no score is chosen after the fact."""
    return np.mean([_standardised(value) for value in found.values()], axis=0)


def _standardised(values: np.ndarray) -> np.ndarray:
    spread = values.std()
    return (values - values.mean()) / spread if spread > TINY else 0 * values
