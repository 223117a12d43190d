"""Scores of predictions: accuracy, by class, and the confusion matrix.

Also the checks that keep a broken input from turning into a number.
"""

import torch
from torch import Tensor

from furlkit.errors import InputError


def accuracy(predictions: Tensor, labels: Tensor) -> float:
    """Share of images whose prediction is their label; every image counts."""
    _check_pairs(predictions, labels)
    return (predictions == labels).sum().item() / len(labels)


def per_class_accuracy(
    predictions: Tensor, labels: Tensor, classes: int
) -> list[float | None]:
    """Accuracy among the images of each class; None for a class without images."""
    matrix = confusion_matrix(predictions, labels, classes)
    return [row[c] / sum(row) if sum(row) else None for c, row in enumerate(matrix)]


def confusion_matrix(
    predictions: Tensor, labels: Tensor, classes: int
) -> list[list[int]]:
    """Counts of images: a row for each true class, a column for each predicted one."""
    _check_pairs(predictions, labels)
    check_labels(labels, classes)
    check_labels(predictions, classes)
    cells = labels.long() * classes + predictions.long()
    return torch.bincount(cells, minlength=classes**2).view(classes, classes).tolist()


def check_labels(labels: Tensor, classes: int) -> None:
    """InputError unless there are labels and all lie in 0 .. classes - 1."""
    if labels.dim() != 1 or len(labels) == 0:
        raise InputError(f"labels: found shape {tuple(labels.shape)}, wanted one a row")
    low, high = int(labels.min()), int(labels.max())
    if low < 0 or high >= classes:
        raise InputError(
            f"labels: found {low} to {high}, wanted 0 to {classes - 1}; "
            "is a part of the data unlabelled?"
        )


def check_features(features: Tensor) -> None:
    """InputError unless the features are rows of finite numbers."""
    if features.dim() != 2:
        raise InputError(
            f"features: found shape {tuple(features.shape)}, wanted one row an image"
        )
    # A row's sum is as finite as its entries, and needs no second copy of them all.
    if not torch.isfinite(features.sum(dim=1)).all():
        raise InputError(
            "features: found NaN or infinity; the model that made them has diverged, "
            "train it with a smaller learning rate"
        )


def check_rows(features: Tensor, labels: Tensor) -> None:
    """InputError unless there is one label for each row of features."""
    if len(features) != len(labels):
        raise InputError(
            f"found {len(features)} rows of features and {len(labels)} labels; "
            "they must come from the same images"
        )


def _check_pairs(predictions: Tensor, labels: Tensor) -> None:
    if predictions.shape != labels.shape or labels.dim() != 1 or len(labels) == 0:
        raise InputError(
            f"found predictions {tuple(predictions.shape)} and labels "
            f"{tuple(labels.shape)}; wanted one of each for every test image"
        )
