"""Scores of predictions: accuracy, accuracy per class, and the confusion matrix.

Also the checks of features and labels, common to all scores.
"""

import torch
from torch import Tensor

from furlkit.errors import InputError


def accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Share of correct predictions."""
    _check_pairs(predictions, labels)
    return (predictions == labels).sum().item() / len(labels)


def per_class_accuracy(
    predictions: Tensor, labels: Tensor, classes: int
) -> list[float | None]:
    """Accuracy on the images of each class; None for a class without images."""
    matrix = confusion_matrix(predictions, labels, classes)
    return [row[c] / sum(row) if sum(row) else None for c, row in enumerate(matrix)]


def confusion_matrix(
    predictions: Tensor, labels: Tensor, classes: int
) -> list[list[int]]:
    """Counts of images: one row per true class, one column per predicted class."""
    _check_pairs(predictions, labels)
    check_labels(labels, classes)
    check_labels(predictions, classes)
    cells = labels.long() * classes + predictions.long()  # index in the flat matrix
    return torch.bincount(cells, minlength=classes**2).view(classes, classes).tolist()


def check_labels(labels: Tensor, classes: int) -> None:
    """Raise InputError unless there are labels and all are in 0 .. classes - 1."""
    if labels.dim() != 1 or len(labels) == 0:
        raise InputError(
            f"labels: found shape {tuple(labels.shape)}, expected one label per row"
        )
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(
            f"labels: found {low} to {high}, expected 0 to {classes - 1}; "
            "is some of the data unlabelled?"
        )


def check_features(features: Tensor) -> None:
    """Raise InputError unless the features are rows of finite numbers."""
    if features.dim() != 2:
        raise InputError(
            f"features: found shape {tuple(features.shape)}, expected one row per image"
        )
    # The sum of a row with NaN or infinity is not finite; a mask needs more memory.
    if not torch.isfinite(features.sum(dim=1)).all():
        raise InputError(
            "features: found NaN or infinity; the model has diverged, train with a "
            "smaller learning rate"
        )


def check_pair(a: Tensor, b: Tensor) -> None:
    """Raise InputError unless both are features of equal shape and not empty."""
    check_features(a)
    check_features(b)
    if a.shape != b.shape or not len(a):
        raise InputError(
            f"features: found shapes {tuple(a.shape)} and {tuple(b.shape)}, expected "
            "the same images and an equal number of dimensions"
        )


def check_labelled(features: Tensor, labels: Tensor, classes: int) -> None:
    """Raise InputError unless features and labels fit together."""
    check_features(features)
    check_rows(features, labels)
    check_labels(labels, classes)


def check_rows(features: Tensor, labels: Tensor) -> None:
    """Raise InputError unless there is one label per row of features."""
    if len(features) != len(labels):
        raise InputError(
            f"found {len(features)} rows of features and {len(labels)} labels, "
            "expected one label per row"
        )


def _check_pairs(predictions: Tensor, labels: Tensor) -> None:
    if predictions.shape != labels.shape or labels.dim() != 1 or len(labels) == 0:
        raise InputError(
            f"found predictions {tuple(predictions.shape)} and labels "
            f"{tuple(labels.shape)}, expected one of each per test image"
        )
