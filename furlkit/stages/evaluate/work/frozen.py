"""Features of a frozen encoder, and scores of classifiers on the features."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import runtime
from furlkit.catalogue import PROTOCOLS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.files.checkpoint import Checkpoint
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.models.untrained import drawn_tensors
from furlkit.reports.document import mean_of_domains
from furlkit.reports.scores import scores
from furlkit.stages.evaluate.frozen import Knn, Linear
from furlkit.stages.evaluate.work import probe

Labelled = tuple[Tensor, Tensor]  # h (n, d) and the labels of the rows
Pairs = Mapping[str, tuple[np.ndarray, np.ndarray]]


def open_net(options: Linear | Knn, model: Checkpoint) -> Net:
    """Load the net; an untrained net is drawn from the seed."""
    if options.untrained:
        model = replace(model, tensors=drawn_tensors(model.facts, options.seed or 0))
    return load_net(model, runtime.start(options.runtime))


def score(
    options: Linear | Knn,
    net: Net,
    model: Checkpoint,
    train: ImageSet,
    test: ImageSet,
    pairs: Pairs,
) -> dict[str, Any]:
    """Scores on all test images, or by domain; `pairs`: positions by domain."""
    learned, tested = (_features(net, model, data) for data in (train, test))
    classes = max(train.classes, test.classes)
    if not pairs:
        return _score(options, learned, tested, classes)
    domains = {
        name: _score(options, _rows(learned, ours), _rows(tested, theirs), classes)
        for name, (ours, theirs) in pairs.items()
    }
    return mean_of_domains(domains)


def _features(net: Net, model: Checkpoint, data: ImageSet) -> Labelled:
    device = next(net.parameters()).device
    index, view = np.arange(len(data.images)), view_of(model, Augmentation())
    labels = torch.from_numpy(np.asarray(data.labels))
    h = embed(net, data.images, index, view, "h")
    return h.to(device), labels.to(device)


def _score(
    options: Linear | Knn, learned: Labelled, tested: Labelled, classes: int
) -> dict[str, Any]:
    rows, labels = tested
    predictions, facts = _predict(options, *learned, rows, classes)
    found = scores(
        [each.cpu() for each in predictions], labels.cpu(), classes, "probes"
    )
    return {**found, **facts, "train_examples": len(learned[1])}


def _predict(
    options: Linear | Knn, h: Tensor, labels: Tensor, test: Tensor, classes: int
) -> probe.Predictions:
    """Learn from h (n, d), and classify the rows of `test`."""
    if isinstance(options, Linear):
        return probe.predict(options.probe, h, labels, test, classes, options.seed or 0)
    vote = load(PROTOCOLS["knn"].function)
    return [vote(h, labels, test, classes, options.k, options.temperature)], {}


def _rows(data: Labelled, positions: np.ndarray) -> Labelled:
    """Features and labels of some images."""
    (h, labels), chosen = data, torch.from_numpy(positions)
    return h[chosen.to(h.device)], labels[chosen.to(labels.device)]
