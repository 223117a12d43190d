"""Predictions of a model's classifier."""

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit import runtime
from furlkit.catalogue import PROTOCOLS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.models.untrained import warn_if_untrained
from furlkit.reports.scores import scores
from furlkit.stages.evaluate.classifier import ClassifierOptions


def open_net(options: ClassifierOptions, model: Checkpoint) -> Net:
    """Load the net; warn if the classifier was never trained."""
    warn_if_untrained(model, "classifier")
    return load_net(model, runtime.start(options.runtime))


def score(net: Net, model: Checkpoint, test: ImageSet, classes: int) -> dict[str, Any]:
    """Scores of the classifier on the test images."""
    labels = torch.from_numpy(np.asarray(test.labels))
    return scores([_predictions(net, model, test)], labels, classes)


def _predictions(net: Net, model: Checkpoint, test: ImageSet) -> Tensor:
    head, index = net.head("classifier"), np.arange(len(test.images))
    if not isinstance(head, nn.Linear):
        raise ValueError("the net has no classifier")
    h = embed(net, test.images, index, view_of(model, Augmentation()), "h")  # (n, d)
    weight, bias = head.weight.detach(), head.bias.detach()
    try:
        predict = load(PROTOCOLS["classifier"].function)
        return predict(h.to(weight.device), weight, bias).cpu()
    except InputError as error:
        raise InputError(f"{model.path}: {error}") from error
