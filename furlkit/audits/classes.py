"""Classes that a client holds, inferred from a file that the client shares.

Melis et al., "Exploiting Unintended Feature Leakage in Collaborative Learning", IEEE S&P
2019, infer properties of a client's data from updates. The attacker here has labelled
public images.

Rows of the client's images: public images near a row vote for the class of the row.
A model, or similarities of public images: contrastive training pushes different images
apart, so public images of a class that the client trained on are less similar to each
other than by a reference (the parent, or the mean over the clients).
"""

import numpy as np

from furlkit.audits.membership import unit

NEIGHBOURS = 10


def classes_of_rows(
    rows: np.ndarray, z: np.ndarray, labels: np.ndarray, classes: int
) -> np.ndarray:
    """Share of each class among the public images nearest to the rows, (classes)."""
    cosines = unit(rows) @ unit(z).T  # (m, n)
    k = min(NEIGHBOURS, cosines.shape[1])
    nearest = np.argpartition(-cosines, k - 1, axis=1)[:, :k]
    votes = np.bincount(labels[nearest].ravel(), minlength=classes)
    return votes / votes.sum()


def cohesion(z: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Mean cosine between two images of a class, minus the mean of all pairs."""
    u = unit(z)
    every = _mean_pair(u)
    return np.array([_mean_pair(u[labels == c]) - every for c in range(classes)])


def _mean_pair(u: np.ndarray) -> float:
    """Mean cosine of two different rows; NaN for fewer than two rows."""
    n = len(u)
    if n < 2:
        return np.nan
    return float((np.square(u.sum(axis=0)).sum() - n) / (n * (n - 1)))


def cohesion_of_cosines(
    cosines: np.ndarray, labels: np.ndarray, classes: int
) -> np.ndarray:
    """Like `cohesion`, from the cosines (n, n); NaN marks unknown cosines."""
    pairs = ~np.eye(len(cosines), dtype=bool) & ~np.isnan(cosines)
    every = cosines[pairs].mean()
    found = []
    for c in range(classes):
        mine = labels == c
        inside = pairs & mine[:, None] & mine[None]
        found.append(cosines[inside].mean() - every if inside.any() else np.nan)
    return np.array(found)


def class_scores(measured: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Evidence (clients, classes) for held classes: cohesion below the reference."""
    return reference - measured
