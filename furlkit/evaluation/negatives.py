"""How many of a contrastive loss's negatives are of the image's own class, by client.

FCL Eq. 4-5, from how many images of which class each client has. No model is needed.

    q       an image of client c and class y
    Q_l,i   rows of client i's own images; of the others' it is what they share
    m       classes of a client
    I(i,q)  whether client i has images of class y
"""

from typing import NamedTuple

import numpy as np


class Ratios(NamedTuple):
    """Means over all images; None where a client has no such negatives."""

    local: float | None
    fused: float | None
    remote: float | None


def measured(histogram: np.ndarray, own: int, shared: int) -> Ratios:
    """The ratios by the classes' true shares: `histogram` (clients, classes) counts.

    A client has `own` rows of its own images, in which each image is as likely, and
    `shared` of every other client, or as many as that one has images.
    """
    images = histogram.sum(axis=1, keepdims=True)
    shares = histogram / np.maximum(images, 1)  # (clients, classes)
    return _ratios(histogram, shares, own, shared)


def by_equations(histogram: np.ndarray, own: int, shared: int) -> Ratios:
    """FCL Eq. 4 and 5, where all of a client's m classes have the same share:

        R  = (|Q_l,c| / m + sum_{i != c} I(i,q) |Q_l,i| / m) / sum_i |Q_l,i|
        R' = the same without Q_l,c

    m is that of the client whose rows they are.
    """
    held = histogram > 0
    shares = held / np.maximum(held.sum(axis=1, keepdims=True), 1)
    return _ratios(histogram, shares, own, shared)


def _ratios(histogram: np.ndarray, shares: np.ndarray, own: int, shared: int) -> Ratios:
    """`shares` (clients, classes): how likely a row of a client is of a class."""
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
    """The mean over all images of ratios by client and class."""
    total = histogram.sum()
    return float((ratios * histogram).sum() / total) if total else None
