"""Rows of images by several models, and the angles between the rows."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import runtime
from furlkit.catalogue import PROTOCOLS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError
from furlkit.evaluation.angles import box
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.models import ModelOptions
from furlkit.models.embedding import embed
from furlkit.models.loading import check_fit, load_net, view_of

__all__ = ["check_fit", "measure"]


def measure(
    options: ModelOptions, models: Sequence[Checkpoint], images: ImageSet
) -> dict[str, Any]:
    """Boxplots of the angles between the models."""
    device = runtime.start(options.runtime)
    rows = [_rows(model, images, options.layer, device) for model in models]
    return _measured(models, rows)


def _rows(
    model: Checkpoint, images: ImageSet, layer: str, device: torch.device
) -> Tensor:
    net = load_net(read_checkpoint(model.path), device)
    index = np.arange(len(images.images))
    view = view_of(model, Augmentation())
    rows = embed(net, images.images, index, view, layer)
    return rows.to(runtime.with_float64(device))


def _measured(models: Sequence[Checkpoint], rows: Sequence[Tensor]) -> dict[str, Any]:
    """Boxplots of every pair of models, and of the angles of all pairs."""
    pairs, every = [], []
    for i, j in combinations(range(len(models)), 2):
        between = _between(models[i], models[j], rows[i], rows[j])
        clients = [models[i].facts.client, models[j].facts.client]
        pairs.append({"models": [i, j], "clients": clients, **box(between)})
        every.append(between)
    return {"pairs": pairs, "angles": box(np.concatenate(every))}


def _between(one: Checkpoint, other: Checkpoint, a: Tensor, b: Tensor) -> np.ndarray:
    angles = load(PROTOCOLS["angles"].function)
    try:
        return angles(a, b).cpu().numpy()
    except InputError as error:
        raise InputError(f"{one.path} and {other.path}: {error}") from error
