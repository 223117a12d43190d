"""Scores of a clustering, and k-means for models that have no clusters of their own.

    C, H    classes and clusters; there may be more of either
    table   images by class and by cluster                                     (C, H)

Clusters have no names. For an accuracy each class is matched with one cluster at most, so
that as many images as possible are in the cluster of their class (Hungarian method).
"""

from typing import NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits
from torch import Tensor

from furlkit.errors import UsageError
from furlkit.evaluation.scores import check_features, check_labels, check_rows

STARTS = 10  # Of k-means; the one of least squares counts.


class Assignment(NamedTuple):
    """The cluster of each image, and a number that is larger the surer it is: (n), (n)."""

    clusters: Tensor
    sureness: Tensor

    def cpu(self) -> "Assignment":
        """Both on the CPU, where clusters are matched with classes."""
        return Assignment(self.clusters.cpu(), self.sureness.cpu())

    def surest(self, cluster: int, most: int) -> list[int]:
        """The images of a cluster, the surest first, at most so many."""
        own = (self.clusters == cluster).nonzero().flatten()
        order = self.sureness[own].argsort(descending=True, stable=True)
        return own[order[:most]].tolist()


def table_of(labels: Tensor, clusters: Tensor, classes: int, count: int) -> np.ndarray:
    """Images of each class in each cluster, (C, H)."""
    check_rows(clusters, labels)
    check_labels(labels, classes)
    cells = labels.long() * count + clusters.long()
    return torch.bincount(cells, minlength=classes * count).view(classes, -1).numpy()


def matching(table: np.ndarray) -> list[int | None]:
    """The cluster of each class; None for those that are left where clusters are fewer."""
    rows, columns = linear_sum_assignment(table, maximize=True)
    found = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return [found.get(label) for label in range(len(table))]


def arranged(table: np.ndarray, matched: list[int | None]) -> np.ndarray:
    """The confusion matrix after matching, (C, max(C, H)).

    Column c is the cluster of class c, empty if it has none; those of no class follow.
    """
    left = [k for k in range(table.shape[1]) if k not in matched]
    empty = np.zeros(len(table), table.dtype)
    columns = [empty if k is None else table[:, k] for k in matched]
    return np.stack([*columns, *(table[:, k] for k in left)], axis=1)


def nmi_and_ari(labels: Tensor, clusters: Tensor) -> tuple[float, float]:
    """Normalised mutual information (arithmetic mean), and the adjusted Rand index."""
    pair = labels.numpy(), clusters.numpy()
    return float(normalized_mutual_info_score(*pair)), float(adjusted_rand_score(*pair))


def kmeans(h: Tensor, count: int, state: int) -> Tensor:
    """H centroids of the rows of h (n, d), scaled to length 1: Lloyd's algorithm.

    scikit-learn computes them on the CPU, on one thread, since sums of several may differ
    in their last bits. The centroids are on the device of h.
    """
    check_features(h)
    if len(h) < count:
        raise UsageError(
            f"--kmeans {count}: more clusters than the {len(h):,} images; lower it"
        )
    method = KMeans(count, n_init=STARTS, random_state=state)
    with threadpool_limits(1), catch_warnings():
        # Rows of a collapsed model are the same, so that some clusters stay empty.
        simplefilter("ignore", ConvergenceWarning)
        method.fit(F.normalize(h, dim=1).cpu().numpy())
    return torch.from_numpy(method.cluster_centers_).to(h.device)


def nearest(h: Tensor, centroids: Tensor) -> Assignment:
    """The nearest centroid of each row of h, scaled to length 1; near is sure."""
    check_features(h)
    # |x - c|^2 = 1 - 2 x c + |c|^2 for rows of length 1.
    gaps = centroids.square().sum(dim=1) - 2 * F.normalize(h, dim=1) @ centroids.T
    least, clusters = gaps.min(dim=1)
    return Assignment(clusters, -least)


def most_probable(q: Tensor) -> Assignment:
    """The cluster of the largest probability of each row of q (n, H)."""
    check_features(q)
    largest, clusters = q.max(dim=1)
    return Assignment(clusters, largest)
