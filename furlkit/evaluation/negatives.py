"""Share of a contrastive loss's negatives with the image's class, by client.

FCL Eq. 4-5, from the class counts of every client. No model is needed.

    q       an image of client c and class y
    Q_l,i   rows of client i's images, or the rows shared with other clients
    m       number of classes of a client
    I(i,q)  1 if client i has images of class y, otherwise 0
"""

from typing import NamedTuple

import numpy as np


class Ratios(NamedTuple):
    """Means over all images; None if a client has no negatives of the kind."""

    local: float | None
    fused: float | None
    remote: float | None


def measured(histogram: np.ndarray, own: int, shared: int) -> Ratios:
    """Ratios by the true shares of classes; `histogram` (clients, classes): counts.

    A client has `own` rows of its images, uniformly drawn, and `shared` rows of every
    other client, at most one row per image.
    """
    images = histogram.sum(axis=1, keepdims=True)
    shares = histogram / np.maximum(images, 1)  # (clients, classes)
    return _ratios(histogram, shares, own, shared)


def by_equations(histogram: np.ndarray, own: int, shared: int) -> Ratios:
    """FCL Eq. 4 and 5, with equal shares of a client's m classes:

        R  = (|Q_l,c| / m + sum_{i != c} I(i,q) |Q_l,i| / m) / sum_i |Q_l,i|
        R' = R without Q_l,c

    m belongs to the client that sent the rows.
    """
    held = histogram > 0
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1)
    return _ratios(histogram, shares, own, shared)


def _ratios(histogram: np.ndarray, shares: np.ndarray, own: int, shared: int) -> Ratios:
    """`shares` (clients, classes): probability of a class for a row of a client."""
    rows = np.minimum(histogram.sum(axis=1), shared)[:, None]  # (clients, 1)
    false = rows * shares
    others_false = false.sum(axis=0) - false  # (clients, classes), for each c and y
    others = rows.sum() - rows  # (clients, 1)
    fused = (own * shares + others_false) / (own + others)
    holders = histogram.sum(axis=1) > 0
    remote = None
    if holders.sum() > 1:
        remote = _mean(others_false / np.maximum(others, 1), histogram)
    return Ratios(_mean(shares, histogram), _mean(fused, histogram), remote)


def _mean(ratios: np.ndarray, histogram: np.ndarray) -> float | None:
    """Mean over all images of ratios by client and class."""
    total = histogram.sum()
    return float((ratios * histogram).sum() / total) if total else None
