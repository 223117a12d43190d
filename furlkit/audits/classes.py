"""Classes that a client holds, inferred from a file that the client shares.

Melis et al., "Exploiting Unintended Feature Leakage in Collaborative Learning", IEEE S&P
2019, infer properties of a client's data from updates. The attacker here has labelled
public images.

Rows of the client's images: public images near a row vote for the class of the row.
A model: the contrastive loss of public images is lower for classes of the training.
Similarities or features of public images: near images have the same class more often for
classes that the client has trained on. The evidence is relative to a reference (the parent, or
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


def nearest_columns(cosines: np.ndarray, k: int) -> np.ndarray:
    """Columns (n, k) of the largest cosines of each row, without the diagonal."""
    others = cosines.astype(np.float32, copy=True)
    np.fill_diagonal(others, -np.inf)
    k = min(k, len(others) - 1)
    return np.argpartition(-others, k - 1, axis=1)[:, :k]


def purity(columns: np.ndarray, labels: np.ndarray, classes: int) -> np.ndarray:
    """Share of near images, by column (n, k), with the class of the image, by class.

    An image does not count as near itself. NaN for a class without images.
    """
    same = labels[columns] == labels[:, None]
    other = columns != np.arange(len(columns))[:, None]
    found = []
    for c in range(classes):
        counted = same[labels == c][other[labels == c]]
        found.append(float(counted.mean()) if len(counted) else np.nan)
    return np.array(found)


def class_scores(measured: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Evidence (clients, classes): measured minus reference, with mean 0 over classes."""
    found = measured - reference
    return found - np.nanmean(found, axis=1, keepdims=True)
