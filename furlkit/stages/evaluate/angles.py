"""evaluate angles: angles between models' representations of equal images."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import runtime
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError, UsageError
from furlkit.evaluation.angles import box
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.documents import Result, found_before, write_document
from furlkit.inputs.models import (
    ModelOptions,
    common_round,
    describe_models,
    open_models,
    width_of,
)
from furlkit.inputs.settings import fill
from furlkit.models.embedding import embed
from furlkit.models.loading import load_net, view_of
from furlkit.reports.document import describe_checkpoint


def run(values: dict[str, Any]) -> Result:
    """Measure the angle between the representations of each image by two models."""
    known = recorded("evaluate angles", values)
    options = fill(ModelOptions, {**values, "recorded": known})
    if len(options.models) < 2:
        raise UsageError(
            f"evaluate angles: found {len(options.models)} model, an angle needs "
            "2 or more"
        )
    images, models = open_models(options)
    _check_widths(models, options.layer)
    device = runtime.start(options.runtime)
    seen = f"{describe_models(models)} on {len(images.images):,} images"
    if options.dry_run:
        plan = {"protocol": "angles", "images": len(images.images)}
        return f"would measure angles between {seen}", plan
    known = {
        "protocol": "angles",
        "layer": options.layer,
        "images": len(images.images),
        "round": common_round(models),
        "models": [describe_checkpoint(model) for model in models],
        "checkpoint": describe_checkpoint(models[0]),
        "data": {"images": images.fingerprint},
        "inputs": {f"model {n}": model.content for n, model in enumerate(models)},
    }
    document = found_before(options, known)
    if document is None:
        rows = [_rows(model, images, options.layer, device) for model in models]
        document = write_document(options, {**known, **_measured(models, rows)})
    low, median, high = document["angles"]["quartiles"]
    line = (
        f"{options.output}: median angle {median:.1f} degrees (quartiles {low:.1f} to "
        f"{high:.1f}) between {seen}"
    )
    return line, document


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


def _check_widths(models: Sequence[Checkpoint], layer: str) -> None:
    first = models[0]
    for model in models[1:]:
        if width_of(model, layer) != width_of(first, layer):
            raise InputError(
                f"{model.path}: {layer} has {width_of(model, layer):,} dimensions, "
                f"but {width_of(first, layer):,} in {first.path}; an angle needs "
                "models of one width"
            )
