"""evaluate linear, knn: what a frozen representation is worth."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from furlkit import runtime
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.evaluation.knn import predict_knn
from furlkit.evaluation.linear import LinearSettings, fit_linear, predict_linear
from furlkit.inputs.labelled import Options, open_labelled, train_and_test
from furlkit.inputs.settings import fill
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.randomness import torch_generator
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import Result, write_scores


@dataclass(frozen=True, kw_only=True)
class Linear(Options):
    """How the linear classifier is trained."""

    settings: LinearSettings


@dataclass(frozen=True, kw_only=True)
class Knn(Options):
    """Neighbours and temperature of the vote."""

    k: int
    temperature: float


OPTIONS: dict[str, type[Linear] | type[Knn]] = {"linear": Linear, "knn": Knn}


class Features(NamedTuple):
    """Features and labels of the images to learn from and to be tested on."""

    train: Tensor
    train_labels: Tensor
    test: Tensor
    test_labels: Tensor
    classes: int


def run(protocol: str, values: dict[str, Any]) -> Result:
    """Score the frozen encoder of a model; every test image counts."""
    known = {"recorded": recorded(f"evaluate {protocol}", values)}
    options = fill(OPTIONS[protocol], {**train_and_test(values), **known})
    model, train, test = open_labelled(options)
    net = load_net(model, runtime.start(options.runtime))
    if options.dry_run:
        line = (
            f"would score {options.model} by {protocol} on {len(test.images):,} images"
        )
        return line, {"protocol": protocol, "images": len(test.images)}

    def features_of(images: ImageSet) -> tuple[Tensor, Tensor]:
        index, view = np.arange(len(images.images)), view_of(model, Augmentation())
        labels = torch.from_numpy(np.asarray(images.labels))
        return embed(net, images.images, index, view, "h"), labels

    classes = max(train.classes, test.classes)
    features = Features(*features_of(train), *features_of(test), classes)
    found = {
        "protocol": protocol,
        **scoring.scores(_predict(features, options), features.test_labels, classes),
        **scoring.origins(model, train, test),
        "train_examples": len(features.train),
    }
    return write_scores(options, found, scoring.model_name(model))


def _predict(features: Features, options: Linear | Knn) -> Tensor:
    train, train_labels, test, _, classes = features
    if isinstance(options, Knn):
        vote = (options.k, options.temperature)
        return predict_knn(train, train_labels, test, classes, *vote)
    rng = torch_generator(options.seed or 0, "evaluate", "linear")
    head = fit_linear(train, train_labels, classes, options.settings, rng)
    return predict_linear(test, *head)
