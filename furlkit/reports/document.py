"""The metrics document and the result line of protocols that score with labels."""

from pathlib import Path
from typing import Any

from torch import Tensor

from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.scores import accuracy, confusion_matrix, per_class_accuracy
from furlkit.files.checkpoint import Checkpoint


def scores(predictions: Tensor, labels: Tensor, classes: int) -> dict[str, Any]:
    """Accuracy over all images and by class, and the confusion matrix."""
    return {
        "accuracy": accuracy(predictions, labels),
        "per_class": per_class_accuracy(predictions, labels, classes),
        "confusion": confusion_matrix(predictions, labels, classes),
        "test_examples": len(labels),
    }


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
        "content": model.content,
        "stage": model.header.stage,
        "seed": model.header.seed,
        "facts": model.header.facts,
    }


def result_line(output: Path, document: dict[str, Any], scored: str) -> str:
    """The result for people; `scored` says which model was scored."""
    return (
        f"{output}: {document['protocol']} accuracy "
        f"{100 * document['accuracy']:.2f}% on {document['test_examples']:,} images, "
        f"{scored}"
    )


def model_name(model: Checkpoint) -> str:
    """A model by its role and round."""
    return f"{model.facts.role} model of round {model.facts.round}"
