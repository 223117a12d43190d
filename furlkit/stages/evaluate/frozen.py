"""evaluate: what a representation is worth."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from furlkit import runtime
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import View
from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.knn import predict_knn
from furlkit.evaluation.linear import LinearSettings, fit_linear, predict_linear
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.metrics import write_metrics
from furlkit.inputs.labelled import Options, open_labelled, train_and_test
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill_each
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.randomness import torch_generator
from furlkit.reports import document as scoring


@dataclass(frozen=True)
class KnnSettings:
    """Neighbours and temperature of the vote."""

    k: int
    temperature: float


SETTINGS: dict[str, type] = {"linear": LinearSettings, "knn": KnnSettings}


class Features(NamedTuple):
    """Features and labels of the images to learn from and to be tested on."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: int


def run(protocol: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Score the frozen encoder of a model; every test image counts."""
    known = {"recorded": recorded(f"evaluate {protocol}", values)}
    options, settings = fill_each(
        (Options, SETTINGS[protocol]), {**train_and_test(values), **known}
    )
    check_output(options.output, options.inputs)
    model = read_checkpoint(options.model)
    train, test = open_labelled(options, model)
    net = load_net(model, runtime.start(options.runtime))
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
    document = {
        "protocol": protocol,
        **scoring.scores(predictions, features.test_labels, features.classes),
        **scoring.origins(model, train, test),
        "train_examples": len(features.train),
        "options": {**options.recorded, **options.runtime.resolved_options()},
        "seed": options.seed,
    }
    write_metrics(options.output, document)
    return scoring.result_line(
        options.output, document, scoring.model_name(model)
    ), document


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
