"""Classes that a client holds, inferred from a file that the client shares.

Melis et al., "Exploiting Unintended Feature Leakage in Collaborative Learning", IEEE S&P
2019, infer properties of a client's data from updates. The attacker here has labelled
public images.

Rows of the client's images: public images near a row vote for the class of the row.
A model: the contrastive loss of public images is lower for classes of the training.
Similarities or features of public images: a client separates the classes that the client
has trained on from other classes. The evidence is relative to a reference (the parent, or
the mean over the clients), and to the mean over the classes.
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


def mean_by_class(values: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Mean value of the images of each class; NaN for a class without images."""
    found = [values[labels == c] for c in range(classes)]
    return np.array([each.mean() if len(each) else np.nan for each in found])


def separation(cosines: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Mean cosine within a class minus the mean cosine to images of other classes.

    NaN in the cosines (n, n) marks unknown pairs; the diagonal does not count. NaN for a
    class without known pairs.
    """
    known = ~np.isnan(cosines)
    np.fill_diagonal(known, False)
    found = []
    for c in range(classes):
        mine = labels == c
        inside = known & mine[:, None] & mine[None]
        outside = known & mine[:, None] & ~mine[None]
        pair = inside.any() and outside.any()
        gap = cosines[inside].mean() - cosines[outside].mean() if pair else np.nan
        found.append(float(gap))
    return np.array(found)


def class_scores(measured: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Evidence (clients, classes): measured minus reference, with mean 0 over classes."""
    found = measured - reference
    return found - np.nanmean(found, axis=1, keepdims=True)
