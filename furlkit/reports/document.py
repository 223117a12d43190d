"""What every protocol with labels shares: its doors, its numbers, its document."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError
from furlkit.evaluation.scores import accuracy, confusion_matrix, per_class_accuracy
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.matching import check_channels
from furlkit.models.loading import architecture_of
from furlkit.runtime import Runtime


@dataclass(frozen=True)
class Options:
    """What all protocols share: a model, labelled images to learn and to test on.

    `seed` is None for a protocol that draws nothing.
    """

    model: Path
    train: Source
    test: Source
    output: Path
    runtime: Runtime
    dry_run: bool
    recorded: dict[str, Any]
    seed: int | None = None

    @property
    def inputs(self) -> list[Path]:
        """What is read, and so may not be written."""
        return [self.model, Path(self.train.name), Path(self.test.name)]


def open_labelled(options: Options, model: Checkpoint) -> tuple[ImageSet, ImageSet]:
    """The images to learn from and to test on: labelled, and fit for the model."""
    train, test = options.train.images(), options.test.images()
    for images in (train, test):
        check_channels(images, architecture_of(model.path, model.facts), model.path)
        if images.labels is None:
            raise InputError(f"{images.name}: has no labels to evaluate with")
    return train, test


def scores(predictions: Tensor, labels: Tensor, classes: int) -> dict[str, Any]:
    """What predictions are worth, over all and by class; every one counts."""
    return {
        "accuracy": accuracy(predictions, labels),
        "per_class": per_class_accuracy(predictions, labels, classes),
        "confusion": confusion_matrix(predictions, labels, classes),
        "test_examples": len(labels),
    }


def origins(model: Checkpoint, train: ImageSet, test: ImageSet) -> dict[str, Any]:
    """The part of the document that says what was scored, and on what."""
    return {
        "class_names": list(test.class_names),
        "data": {"train": train.fingerprint, "test": test.fingerprint},
        "checkpoint": account(model),
    }


def account(model: Checkpoint) -> dict[str, Any]:
    """Which model was measured, for a metrics file."""
    return {
        "content": model.content,
        "stage": model.header.stage,
        "seed": model.header.seed,
        "facts": model.header.facts,
    }


def line_of(output: Path, document: dict[str, Any], scored: str) -> str:
    """The result for people; `scored` says what model it was."""
    return (
        f"{output}: {document['protocol']} accuracy "
        f"{100 * document['accuracy']:.2f}% on {document['test_examples']:,} images, "
        f"{scored}"
    )


def named(model: Checkpoint) -> str:
    """A model by its role and round."""
    return f"{model.facts.role} model of round {model.facts.round}"
