"""The metrics document and the result line of protocols that score with labels."""

from collections.abc import Sequence
from pathlib import Path
from statistics import stdev
from typing import Any

import torch
from torch import Tensor

from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.scores import accuracy, confusion_matrix, per_class_accuracy
from furlkit.files.checkpoint import Checkpoint
from furlkit.reports.metrics import spread_of


def scores(
    trained: Sequence[Tensor], labels: Tensor, classes: int, name: str = ""
) -> dict[str, Any]:
    """Accuracy over all images and by class, and the confusion matrix.

    With the predictions of several classifiers, which are called `name` (probes), both
    accuracies are means over them and the matrix is their sum. Then there are also the
    accuracy of each and, as accuracy_std, their standard deviation.
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


def origins(model: Checkpoint, train: ImageSet, test: ImageSet) -> dict[str, Any]:
    """Which model was scored, and on which images."""
    return {
        "class_names": list(test.class_names),
        "data": {"train": train.fingerprint, "test": test.fingerprint},
        "checkpoint": describe_checkpoint(model),
    }


def describe_checkpoint(model: Checkpoint) -> dict[str, Any]:
    """A model's content hash, stage, seed and facts."""
    return {
        "content": model.content or None,  # A network in no file has none.
        "stage": model.header.stage,
        "seed": model.header.seed,
        "facts": model.header.facts,
    }


def result_line(output: Path, document: dict[str, Any], scored: str) -> str:
    """The result for people; `scored` says which model was scored."""
    spread = spread_of(document)
    return (
        f"{output}: {document['protocol']} accuracy "
        f"{100 * document['accuracy']:.2f}%{spread and f' ({spread})'} on "
        f"{document['test_examples']:,} images, {scored}"
    )


def model_name(model: Checkpoint) -> str:
    """A model by its role and round."""
    return f"{model.facts.role} model of round {model.facts.round}"
