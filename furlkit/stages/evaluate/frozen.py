"""evaluate linear, knn: score a frozen representation."""

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.inputs.documents import Result, found_before
from furlkit.inputs.labelled import domain_pairs, train_and_test
from furlkit.inputs.settings import fill
from furlkit.inputs.untrained import ScoredOptions, open_labelled
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import scores_before, write_scores
from furlkit.stages.evaluate.probe import Predictions, Probe

Labelled = tuple[Tensor, Tensor]  # h (n, d) and the labels of the rows


@dataclass(frozen=True, kw_only=True)
class Frozen(ScoredOptions):
    """With `by_domain`, every domain is learned and scored separately."""

    by_domain: bool


@dataclass(frozen=True, kw_only=True)
class Linear(Frozen):
    """Options of linear classifiers."""

    probe: Probe

    def predict(
        self, h: Tensor, labels: Tensor, test: Tensor, classes: int
    ) -> Predictions:
        """Fit classifiers to h (n, d), and classify the rows of `test`."""
        return self.probe.predict(h, labels, test, classes, self.seed or 0)


@dataclass(frozen=True, kw_only=True)
class Knn(Frozen):
    """Neighbours and temperature of the vote."""

    k: int
    temperature: float

    def predict(
        self, h: Tensor, labels: Tensor, test: Tensor, classes: int
    ) -> Predictions:
        """Let the nearest rows of h (n, d) vote on each row of `test`."""
        predict = load(PROTOCOLS["knn"].function)
        return [predict(h, labels, test, classes, self.k, self.temperature)], {}

    def check_size(self, train: ImageSet, images: int) -> None:
        """Warn if there are fewer than k training images."""
        if self.k > images:
            domain = " of a domain" if self.by_domain else ""
            console.warn(
                f"--k {self.k}: is more than the {images:,} images{domain} in "
                f"{train.name}; every training image votes on every test image"
            )


OPTIONS: dict[str, type[Linear] | type[Knn]] = {"linear": Linear, "knn": Knn}


def run(protocol: str, values: dict[str, Any]) -> Result:
    """Score the frozen encoder of a model on every test image."""
    known: dict[str, Any] = {"recorded": recorded(f"evaluate {protocol}", values)}
    options = fill(OPTIONS[protocol], {**train_and_test(values), **known})
    model, train, test = open_labelled(options)
    device = runtime.start(options.runtime)
    net = load_net(model, device)
    scored = scoring.model_name(model)
    origins = {"protocol": protocol, **scoring.origins(model, train, test)}
    pairs = domain_pairs(train, test) if options.by_domain else {}
    if isinstance(options, Knn):
        least = min(
            (len(ours) for ours, _ in pairs.values()), default=len(train.images)
        )
        options.check_size(train, least)
    if pairs:
        origins["domain_names"] = list(pairs)
    if options.untrained:
        scored = f"untrained {model.facts.architecture['encoder']}"
        origins["untrained"] = True
    if options.dry_run:
        images, of = len(test.images), scored if options.untrained else options.model
        line = f"would score {of} by {protocol} on {images:,} images"
        return line, {"protocol": protocol, "images": images}

    if before := found_before(options, origins):
        return scores_before(options, before, scored)

    def features_of(data: ImageSet) -> Labelled:
        index, view = np.arange(len(data.images)), view_of(model, Augmentation())
        labels = torch.from_numpy(np.asarray(data.labels))
        h = embed(net, data.images, index, view, "h")
        return h.to(device), labels.to(device)

    def score(learned: Labelled, tested: Labelled) -> dict[str, Any]:
        classes, (rows, labels) = max(train.classes, test.classes), tested
        predictions, facts = options.predict(*learned, rows, classes)
        found = scoring.scores(
            [each.cpu() for each in predictions], labels.cpu(), classes, "probes"
        )
        return {**found, **facts, "train_examples": len(learned[1])}

    learned, tested = features_of(train), features_of(test)
    if pairs:
        found = scoring.mean_of_domains(
            {
                name: score(_rows(learned, ours), _rows(tested, theirs))
                for name, (ours, theirs) in pairs.items()
            }
        )
    else:
        found = score(learned, tested)
    return write_scores(options, {**origins, **found}, scored)


def _rows(data: Labelled, positions: np.ndarray) -> Labelled:
    """Features and labels of some images."""
    (h, labels), chosen = data, torch.from_numpy(positions)
    return h[chosen.to(h.device)], labels[chosen.to(labels.device)]


# The stages of furlkit/cli/evaluate.py.
linear = partial(run, "linear")
knn = partial(run, "knn")
