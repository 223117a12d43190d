"""Measures of a representation, and of the drift between two, without labels.

With labels, also the share of false negatives of a contrastive loss. Sums over all
pairs of images are computed in blocks.
"""

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.errors import InputError
from furlkit.evaluation.scores import check_features, check_pair, check_rows

BLOCK = 2**22  # Similarities in memory at once, for any number of images.
NOISE = 1e-6  # Smaller relative norms of centred features are float32 rounding.


def alignment(x: Tensor, y: Tensor) -> float:
    """E |f(x) - f(x+)|^2 over positive pairs; x, y (n, d), row i two views of one image.

    Rows are normalised; the range is 0 (equal views) to 4. Wang and Isola,
    "Understanding Contrastive Representation Learning through Alignment and Uniformity
    on the Hypersphere", ICML 2020, section 4.1, with alpha = 2.
    """
    check_pair(x, y)
    u, v = F.normalize(x, dim=1), F.normalize(y, dim=1)
    return float((u - v).square().sum(dim=1).double().mean())


def uniformity(x: Tensor, t: float = 2.0) -> float:
    """log E exp(-t |f(x) - f(y)|^2) over all pairs of different rows of x (n, d).

    Rows are normalised: 0 if all rows are equal, about -2t for rows uniform on a sphere
    of many dimensions. Wang and Isola, ICML 2020, section 4.1, with t = 2.
    """
    _check_many(x)
    unit = F.normalize(x, dim=1)
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for start, rows in _blocks(unit):
        # Only rows from `start` on: every pair once, which halves the work.
        squares = 2 - 2 * (rows @ unit[start:].T)  # (B, n - start)
        total += (-t * squares.clamp_(min=0)).exp().triu_(1).sum(dtype=torch.float64)
    pairs = len(x) * (len(x) - 1) / 2
    return float((total / pairs).log())


def uniformity_between(x: Tensor, y: Tensor, t: float = 2.0) -> float:
    """log E exp(-t |f(a) - g(b)|^2) over different images a, b; x = f, y = g (n, d).

    Row i of x and y belongs to image i. Equal models give `uniformity`; a smaller value
    than the uniformity of both models shows clients in different regions of the sphere.
    """
    check_pair(x, y)
    _check_many(x)
    u, v = F.normalize(x, dim=1), F.normalize(y, dim=1)
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for start, rows in _blocks(u):
        weights = (-t * (2 - 2 * rows @ v.T).clamp_(min=0)).exp()  # (B, n)
        weights.diagonal(start).zero_()
        total += weights.sum(dtype=torch.float64)
    return float((total / (len(x) * (len(x) - 1))).log())


def false_negative_ratio(labels: Tensor) -> float:
    """Share of the ordered pairs of different images with equal labels.

        sum_c n_c (n_c - 1) / (n (n - 1)),    n_c images of class c

    These pairs are false negatives of an objective that repels all other images.
    The ratio does not depend on a model.
    """
    n = len(labels)
    if n < 2:
        raise InputError(f"labels: found {n}, expected at least 2 to form pairs")
    counts = labels.unique(return_counts=True)[1]
    return int((counts * (counts - 1)).sum()) / (n * (n - 1))


def false_negative_weight(x: Tensor, labels: Tensor, tau: float = 0.5) -> float:
    """Share of a contrastive loss's repulsion between images with equal labels.

        mean_i  sum_{j != i, y_j = y_i} w_ij / sum_{j != i} w_ij,
        w_ij = exp(cos(x_i, x_j) / tau)

    for features x (n, d) and labels y (n). w_ij is the weight of negative j in the
    gradient of NT-Xent (Chen et al., "A Simple Framework for Contrastive Learning of
    Visual Representations", ICML 2020, Eq. 1). If all features are equal, the weight is
    the false-negative ratio; a model that separates the classes has a larger weight.
    """
    _check_many(x)
    check_rows(x, labels)
    unit = F.normalize(x, dim=1)
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for start, rows in _blocks(unit):
        s = rows @ unit.T / tau  # (B, n)
        s.diagonal(start).fill_(-torch.inf)
        same = labels[start : start + len(rows), None] == labels[None]  # (B, n)
        total += s.softmax(dim=1, dtype=torch.float64).mul_(same).sum()
    return float(total / len(x))


def cka_matrix(features: Sequence[Tensor]) -> list[list[float | None]]:
    """Linear CKA of every pair of features (n, d) of n common images; d may differ.

        |Y^T X|_F^2 / (|X^T X|_F |Y^T Y|_F),    X and Y centred: 0 (unlike) to 1 (alike)

    Invariant to rotation and isotropic scaling. None (0 / 0) for constant features.
    Kornblith et al., "Similarity of Neural Network Representations Revisited",
    ICML 2019, section 3: CKA with a linear kernel. In float64.
    Features with d >= n are replaced by X X^T, since |Y^T X|_F^2 = <X X^T, Y Y^T>.
    """
    if len({len(x) for x in features}) > 1:
        counts = ", ".join(f"{len(x):,}" for x in features)
        raise InputError(f"features: found {counts} rows, expected the same images")
    forms = [_centred(x) for x in features]
    size = range(len(forms))
    pairs = [(i, j) for j in size for i in range(j + 1)]
    products = {(i, j): _product(forms[i], forms[j]) for i, j in pairs}

    def cka(i: int, j: int) -> float | None:
        lengths = math.sqrt(products[i, i] * products[j, j])
        # Rounding may give slightly more than 1.
        return min(1.0, products[min(i, j), max(i, j)] / lengths) if lengths else None

    return [[cka(i, j) for j in size] for i in size]


def _centred(x: Tensor) -> Tensor:
    """X centred and scaled to norm 1, (n, d); or its X X^T, (n, n), if d >= n."""
    _check_many(x)
    x = x.double()
    centred = x - x.mean(dim=0)
    length = centred.norm()
    constant = length <= NOISE * x.norm()
    centred = torch.zeros_like(x) if constant else centred / length
    return centred @ centred.T if len(x) <= x.shape[1] else centred


def _product(a: Tensor, b: Tensor) -> float:
    """|Y^T X|_F^2 for a = X or X X^T, and b = Y or Y Y^T; X X^T is square."""
    if a.shape[1] == len(a) and b.shape[1] == len(b):
        return float((a * b).sum())
    if a.shape[1] == len(a):
        return float((b * (a @ b)).sum())
    if b.shape[1] == len(b):
        return float((a * (b @ a)).sum())
    return float((b.T @ a).square().sum())


def _blocks(unit: Tensor) -> list[tuple[int, Tensor]]:
    """(start, rows from start on) with at most BLOCK similarities to all rows."""
    rows = max(1, BLOCK // len(unit))
    return [(start, unit[start : start + rows]) for start in range(0, len(unit), rows)]


def _check_many(x: Tensor) -> None:
    check_features(x)
    if len(x) < 2:
        raise InputError(f"features: found {len(x)} rows, expected at least 2")
