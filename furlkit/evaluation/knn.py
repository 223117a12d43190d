"""Nearest rows by cosine, and the vote of the k nearest: a quick monitor of training.

Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
CVPR 2018, section 3.4.
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.evaluation.scores import check_features, check_labelled

BLOCK = 2**23  # Similarities in memory at once: 32 MB, for any number of images.


def nearest_others(rows: Tensor, k: int) -> Tensor:
    """Positions of each row's k nearest other rows, nearest first; (n, d) -> (n, k).

    k is at most n - 1. A row is never a neighbour of itself, even among equal rows.
    """
    check_features(rows)
    n, start = len(rows), 0
    found = torch.empty(n, min(k, n - 1), dtype=torch.long, device=rows.device)
    for s in _cosines(rows, rows):
        s.diagonal(start).fill_(float("-inf"))
        found[start : start + len(s)] = s.topk(found.shape[1], dim=1).indices
        start += len(s)
    return found


def _cosines(rows: Tensor, others: Tensor) -> Iterator[Tensor]:
    """Blocks (B, N) of the cosines of rows (M, d) with others (N, d).

    All blocks reuse one buffer: separate allocations would fragment the heap.
    """
    others = F.normalize(others, dim=1)
    size = min(max(1, BLOCK // len(others)), len(rows))
    memory = others.new_empty(size, len(others))
    for block in rows.split(size):
        yield torch.mm(F.normalize(block, dim=1), others.T, out=memory[: len(block)])


def predict_knn(
    train: Tensor,
    labels: Tensor,
    test: Tensor,
    classes: int,
    k: int = 200,
    t: float = 0.1,
) -> Tensor:
    """Class with the most votes among each test row's k nearest training rows.

        votes_c = sum over neighbours i of class c of exp(s_i / t),   s_i the cosine

    train (N, d) with labels (N), test (M, d) -> predictions (M). k is at most N; ties
    go to the lower class.
    """
    check_labelled(train, labels, classes)
    check_features(test)
    k = min(k, len(train))
    votes = [_votes(s, labels, classes, k, t) for s in _cosines(test, train)]
    return torch.cat(votes).argmax(dim=1)  # (M, classes) -> (M)


def _votes(s: Tensor, labels: Tensor, classes: int, k: int, t: float) -> Tensor:
    near, index = s.topk(k, dim=1)  # (M, k)
    # Relative to the nearest row: a common factor per row, without overflow.
    weights = ((near - near[:, :1]) / t).exp()
    votes = torch.zeros(len(s), classes, dtype=s.dtype, device=s.device)
    return votes.scatter_add_(1, labels[index].long(), weights)  # (M, classes)
