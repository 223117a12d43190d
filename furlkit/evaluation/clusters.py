"""Scores of a clustering, and k-means for models without a cluster head.

    C, H    number of classes and of clusters; either may be larger
    table   images by class and by cluster                                     (C, H)

Clusters have no names. For an accuracy each class is matched with at most one cluster,
to maximise the number of images in the cluster of their class (Hungarian method).
"""

from typing import NamedTuple
from warnings import catch_warnings, simplefilter

import numpy as np
import torch
import torch.nn.functional as F
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans, kmeans_plusplus
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score
from threadpoolctl import threadpool_limits
from torch import Tensor

from furlkit.errors import UsageError
from furlkit.evaluation.scores import check_features, check_labels, check_rows

STARTS = 10  # Starts of k-means; the start with the least squares wins.
ITERATIONS, TOLERANCE = 300, 1e-4  # As in scikit-learn.


class Assignment(NamedTuple):
    """Cluster of each image (n), and a confidence: larger means more certain (n)."""

    clusters: Tensor
    sureness: Tensor

    def cpu(self) -> "Assignment":
        """Move both to the CPU, to match clusters with classes."""
        return Assignment(self.clusters.cpu(), self.sureness.cpu())

    def surest(self, cluster: int, most: int) -> list[int]:
        """At most `most` images of a cluster, most confident first."""
        own = (self.clusters == cluster).nonzero().flatten()
        order = self.sureness[own].argsort(descending=True, stable=True)
        return own[order[:most]].tolist()


def table_of(labels: Tensor, clusters: Tensor, classes: int, count: int) -> np.ndarray:
    """Number of images by class and cluster, (C, H)."""
    check_rows(clusters, labels)
    check_labels(labels, classes)
    cells = labels.long() * count + clusters.long()
    return torch.bincount(cells, minlength=classes * count).view(classes, -1).numpy()


def matching(table: np.ndarray) -> list[int | None]:
    """Cluster of each class; None for classes without a cluster, if H < C."""
    rows, columns = linear_sum_assignment(table, maximize=True)
    found = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return [found.get(label) for label in range(len(table))]


def arranged(table: np.ndarray, matched: list[int | None]) -> np.ndarray:
    """Confusion matrix after matching, (C, max(C, H)).

    Column c is the cluster of class c, or empty; clusters without a class follow.
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
    """Return H centroids of the normalised rows of h (n, d), by Lloyd's algorithm.

    scikit-learn computes on the CPU, on one thread: sums over several threads may
    differ in the last bits. On another device the CPU draws the same starts, the device
    computes, and the centroids agree to rounding.
    """
    check_features(h)
    if len(h) < count:
        raise UsageError(
            f"--kmeans {count}: more clusters than {len(h):,} images; lower --kmeans"
        )
    rows = F.normalize(h, dim=1)
    if h.device.type != "cpu":
        return _fit_on_device(rows, count, state)
    method = KMeans(count, n_init=STARTS, random_state=state)
    with threadpool_limits(1), catch_warnings():
        # A collapsed model has equal rows, and some clusters stay empty.
        simplefilter("ignore", ConvergenceWarning)
        method.fit(rows.numpy())
    return torch.from_numpy(method.cluster_centers_)


def _fit_on_device(rows: Tensor, count: int, state: int) -> Tensor:
    """The centroids of least squares of several starts, which scikit-learn draws."""
    mean = rows.mean(dim=0)
    centred = rows - mean
    least = float(centred.var(dim=0, correction=0).mean()) * TOLERANCE
    drawn, rng = centred.cpu().numpy(), np.random.RandomState(state)
    best, best_squares = centred[:count], float("inf")
    for _ in range(STARTS):
        start = torch.from_numpy(kmeans_plusplus(drawn, count, random_state=rng)[0])
        centroids, squares = lloyd(centred, start.to(rows.device), least)
        if squares < best_squares:
            best, best_squares = centroids, squares
    return best + mean


def lloyd(x: Tensor, centroids: Tensor, least: float) -> tuple[Tensor, float]:
    """Lloyd's algorithm from centroids (H, d) on rows x (n, d), and the sum of squares.

    It ends when the centroids move by no more than `least`, in squares. A cluster
    without rows keeps its centroid.
    """
    for _ in range(ITERATIONS):
        nearest_one = _gaps(x, centroids).argmin(dim=1)
        members = F.one_hot(nearest_one, len(centroids)).to(x.dtype).T  # (H, n)
        sizes = members.sum(dim=1, keepdim=True)
        moved = torch.where(sizes > 0, members @ x / sizes.clamp(min=1), centroids)
        shift = (moved - centroids).square().sum()
        centroids = moved
        if shift <= least:
            break
    squares = _gaps(x, centroids).amin(dim=1).sum() + x.square().sum()
    return centroids, float(squares)


def _gaps(x: Tensor, centroids: Tensor) -> Tensor:
    """|x - c|^2 - |x|^2 for all rows and centroids, (n, H)."""
    return centroids.square().sum(dim=1) - 2 * x @ centroids.T


def nearest(h: Tensor, centroids: Tensor) -> Assignment:
    """Assign each normalised row of h to the nearest centroid; near is confident."""
    check_features(h)
    least, clusters = _gaps(F.normalize(h, dim=1), centroids).min(dim=1)
    return Assignment(clusters, -least)


def most_probable(q: Tensor) -> Assignment:
    """Assign each row of q (n, H) to the cluster with the largest probability."""
    check_features(q)
    largest, clusters = q.max(dim=1)
    return Assignment(clusters, largest)
