"""Scores of predictions, as entries of a metrics document."""

from collections.abc import Sequence
from statistics import stdev
from typing import Any

import torch
from torch import Tensor

from furlkit.evaluation.scores import accuracy, confusion_matrix, per_class_accuracy


def scores(
    trained: Sequence[Tensor], labels: Tensor, classes: int, name: str = ""
) -> dict[str, Any]:
    """Accuracy over all images and by class, and the confusion matrix.

    With the predictions of several classifiers, called `name` (probes), the accuracies
    are means over the classifiers and the matrix is a sum. The document then also holds
    the accuracy of every classifier and the standard deviation, accuracy_std.
    """
    together = torch.cat([*trained]), labels.repeat(len(trained))
    found = {
        "accuracy": accuracy(*together),
        "per_class": per_class_accuracy(*together, classes),
        "confusion": confusion_matrix(*together, classes),
        "test_examples": len(labels),
    }
    if len(trained) > 1:
        each = [accuracy(predictions, labels) for predictions in trained]
        found |= {name: each, "accuracy_std": stdev(each)}
    return found
