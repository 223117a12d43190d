"""Weighted k-nearest neighbours on frozen features, a quick monitor of training.

Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance Discrimination",
CVPR 2018, section 3.4.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.evaluation.scores import check_features, check_labelled

BLOCK = 2**23  # Similarities in memory at once: 32 MB, for any number of images.


def predict_knn(
    train: Tensor,
    labels: Tensor,
    test: Tensor,
    classes: int,
    k: int = 200,
    t: float = 0.1,
) -> Tensor:
    """The class with the most votes among each test row's k nearest training rows.

        votes_c = sum over neighbours i of class c of exp(s_i / t),   s_i the cosine

    train (N, d) with labels (N), test (M, d) -> predictions (M). k is at most N; ties
    go to the lower class.
    """
    check_labelled(train, labels, classes)
    check_features(test)
    train = F.normalize(train, dim=1)
    k = min(k, len(train))
    votes = [
        _votes(F.normalize(rows, dim=1) @ train.T, labels, classes, k, t)
        for rows in test.split(max(1, BLOCK // len(train)))
    ]
    return torch.cat(votes).argmax(dim=1)  # (M, classes) -> (M)


def _votes(s: Tensor, labels: Tensor, classes: int, k: int, t: float) -> Tensor:
    near, index = s.topk(k, dim=1)  # (M, k)
    # Relative to the nearest: all votes of a row have one factor, and none overflows.
    weights = ((near - near[:, :1]) / t).exp()
    votes = torch.zeros(len(s), classes, dtype=s.dtype, device=s.device)
    return votes.scatter_add_(1, labels[index].long(), weights)  # (M, classes)
