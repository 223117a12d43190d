"""evaluate linear, knn: what a frozen representation is worth."""

from dataclasses import dataclass
from typing import Any

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

    def predict(self, h: Tensor, labels: Tensor, test: Tensor, classes: int) -> Tensor:
        """Train a classifier on h (n, d), and let it sort the rows of `test`."""
        rng = torch_generator(self.seed or 0, "evaluate", "linear")
        head = fit_linear(h, labels, classes, self.settings, rng)
        return predict_linear(test, *head)


@dataclass(frozen=True, kw_only=True)
class Knn(Options):
    """Neighbours and temperature of the vote."""

    k: int
    temperature: float

    def predict(self, h: Tensor, labels: Tensor, test: Tensor, classes: int) -> Tensor:
        """Let the nearest rows of h (n, d) vote on each row of `test`."""
        return predict_knn(h, labels, test, classes, self.k, self.temperature)


OPTIONS: dict[str, type[Linear] | type[Knn]] = {"linear": Linear, "knn": Knn}


def run(protocol: str, values: dict[str, Any]) -> Result:
    """Score the frozen encoder of a model; every test image counts."""
    known = {"recorded": recorded(f"evaluate {protocol}", values)}
    options = fill(OPTIONS[protocol], {**train_and_test(values), **known})
    model, train, test = open_labelled(options)
    net = load_net(model, runtime.start(options.runtime))
    if options.dry_run:
        images = len(test.images)
        line = f"would score {options.model} by {protocol} on {images:,} images"
        return line, {"protocol": protocol, "images": images}

    def features_of(data: ImageSet) -> tuple[Tensor, Tensor]:
        index, view = np.arange(len(data.images)), view_of(model, Augmentation())
        labels = torch.from_numpy(np.asarray(data.labels))
        return embed(net, data.images, index, view, "h"), labels

    classes = max(train.classes, test.classes)
    learned, (rows, labels) = features_of(train), features_of(test)
    found = {
        "protocol": protocol,
        **scoring.scores(options.predict(*learned, rows, classes), labels, classes),
        **scoring.origins(model, train, test),
        "train_examples": len(train.images),
    }
    return write_scores(options, found, scoring.model_name(model))
