"""evaluate: what a representation is worth."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from furlkit import runtime
from furlkit.data.augment import Augmentation
from furlkit.data.batches import View
from furlkit.data.datasets import ImageSet
from furlkit.data.source import Source
from furlkit.embedding import embed
from furlkit.errors import InputError
from furlkit.evaluation.knn import predict_knn
from furlkit.evaluation.linear import LinearSettings, fit_linear, predict_linear
from furlkit.evaluation.scores import accuracy, confusion_matrix, per_class_accuracy
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.metrics import write_metrics
from furlkit.loading import architecture_of, load_net, view_of
from furlkit.matching import check_channels
from furlkit.nets import Net
from furlkit.patterns import check_output
from furlkit.randomness import torch_generator
from furlkit.runtime import Runtime


@dataclass(frozen=True)
class KnnSettings:
    """Neighbours and temperature of the vote."""

    k: int = 200
    temperature: float = 0.1


@dataclass(frozen=True)
class Options:
    """What all protocols share: a model, labelled images to learn and to test on.

    `seed` is None for a protocol that draws nothing.
    """

    model: Path
    train: Source
    test: Source
    output: Path
    seed: int | None = None
    runtime: Runtime = Runtime()
    dry_run: bool = False


class Features(NamedTuple):
    """Features and labels of the images to learn from and to be tested on."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: int


def run(
    options: Options, settings: LinearSettings | KnnSettings
) -> tuple[str, dict[str, Any]]:
    """Score the frozen encoder of a model; every test image counts."""
    sources = [Path(source.name) for source in (options.train, options.test)]
    check_output(options.output, [options.model, *sources])
    model = read_checkpoint(options.model)
    train, test = options.train.images(), options.test.images()
    for images in (train, test):
        check_channels(images, architecture_of(model.path, model.facts), model.path)
        if images.labels is None:
            raise InputError(f"{images.name}: has no labels to evaluate with")
    net = load_net(model, runtime.start(options.runtime))
    protocol = "linear" if isinstance(settings, LinearSettings) else "knn"
    if options.dry_run:
        line = (
            f"would score {options.model} by {protocol} on {len(test.images):,} images"
        )
        return line, {"protocol": protocol, "images": len(test.images)}
    features = _features(net, view_of(model, Augmentation()), train, test)
    if isinstance(settings, LinearSettings):
        predictions = _linear(features, settings, options.seed or 0)
    else:
        predictions = predict_knn(
            features.train, features.train_labels, features.test, features.classes,
            settings.k, settings.temperature,
        )  # fmt: skip
    scores = _scores(predictions, features)
    document = {
        "protocol": protocol,
        **scores,
        "class_names": list(test.class_names),
        "options": {**asdict(settings), "threads": options.runtime.threads},
        "seed": options.seed,
        "data": {"train": train.fingerprint, "test": test.fingerprint},
        "checkpoint": {
            "content": model.content,
            "stage": model.header.stage,
            "seed": model.header.seed,
            "facts": model.header.facts,
        },
    }
    write_metrics(options.output, document)
    return _line(options, model, document), document


def _features(net: Net, view: View, train: ImageSet, test: ImageSet) -> Features:
    def of(images: ImageSet) -> tuple[Tensor, Tensor]:
        index = np.arange(len(images.images))
        labels = torch.from_numpy(np.asarray(images.labels))
        return embed(net, images.images, index, view, "h"), labels

    return Features(*of(train), *of(test), max(train.classes, test.classes))


def _linear(features: Features, settings: LinearSettings, seed: int) -> Tensor:
    weight, bias = fit_linear(
        features.train, features.train_labels, features.classes, settings,
        torch_generator(seed, "evaluate", "linear"),
    )  # fmt: skip
    return predict_linear(features.test, weight, bias)


def _scores(predictions: Tensor, features: Features) -> dict[str, Any]:
    labels, classes = features.test_labels, features.classes
    return {
        "accuracy": accuracy(predictions, labels),
        "per_class": per_class_accuracy(predictions, labels, classes),
        "confusion": confusion_matrix(predictions, labels, classes),
        "train_examples": len(features.train),
        "test_examples": len(features.test),
    }


def _line(options: Options, model: Checkpoint, document: dict[str, Any]) -> str:
    return (
        f"{options.output}: {document['protocol']} accuracy "
        f"{100 * document['accuracy']:.2f}% on {document['test_examples']:,} images, "
        f"{model.facts.role} model of round {model.facts.round}"
    )
