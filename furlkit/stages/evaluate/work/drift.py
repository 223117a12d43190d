"""Measures of a model on two views of images, and the similarity of models."""

from collections.abc import Iterable, Sequence
from itertools import combinations
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load
from furlkit.data.batches import Images, View
from furlkit.errors import InputError
from furlkit.evaluation.collapse import effective_rank, lidar, rankme, spread
from furlkit.evaluation.drift import (
    alignment,
    false_negative_ratio,
    false_negative_weight,
    uniformity,
    uniformity_between,
)
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.models.architecture import Net
from furlkit.models.embedding import BATCH, embed, represent
from furlkit.models.loading import check_fit, load_net, view_of
from furlkit.randomness import torch_generator
from furlkit.reports.document import describe_checkpoint
from furlkit.stages.evaluate.drift import DriftOptions, Sample

Numbers = dict[str, float | None]

__all__ = ["check_fit", "measure"]


def measure(
    options: DriftOptions, models: Sequence[Checkpoint], sample: Sample
) -> dict[str, Any]:
    """Measures of each model, means over the models, and CKA of each pair."""
    device = runtime.start(options.runtime)
    measured = [_measured(options, model, sample, device) for model in models]
    cka = load(PROTOCOLS["drift"].function)
    numbers, labels = [numbers for numbers, _ in measured], sample.labels
    return {
        **_numbers(numbers, cka([rows for _, rows in measured])),
        "uniformity_between": _between([rows for _, rows in measured]),
        "false_negative_ratio": (
            None if labels is None else false_negative_ratio(torch.from_numpy(labels))
        ),
        "models": [
            {**describe_checkpoint(model), **own}
            for model, own in zip(models, numbers, strict=True)
        ],
    }


def _measured(
    options: DriftOptions, model: Checkpoint, sample: Sample, device: torch.device
) -> tuple[Numbers, Tensor]:
    """Measures of a model, and features of the plain images."""
    net = load_net(read_checkpoint(model.path), device)
    view = view_of(model, options.augmentation)
    rows = embed(net, sample.images, sample.index, view, options.layer)
    place = runtime.with_float64(device)
    rows = rows.to(place)
    one, other = (x.to(place) for x in _views(net, sample, view, options))
    try:
        found: Numbers = {
            "alignment": alignment(one, other),
            "uniformity": (uniformity(one) + uniformity(other)) / 2,
            "false_negative_weight": None,
            "effective_rank": effective_rank(rows),
            "rankme": rankme(rows),
            "lidar": lidar(one, other),
            "spread": spread(rows),
        }
        if (labels := sample.labels) is not None:
            tau = options.temperature
            weight = false_negative_weight(
                rows, torch.from_numpy(labels).to(place), tau
            )
            found["false_negative_weight"] = weight
    except InputError as error:
        raise InputError(f"{model.path}: {error}") from error
    return found, rows


@torch.inference_mode()
def _views(
    net: Net, sample: Sample, view: View, options: DriftOptions
) -> tuple[Tensor, ...]:
    """Features of two augmentations of every image, twice (n, d) on the CPU.

    The views depend only on the seed: models of one input size see equal views.
    """
    net.eval()
    device = next(net.parameters()).device
    images = Images(sample.images, None, sample.index, view, device)
    both = []
    with console.bar(f"two views of {len(images):,} images", len(images)) as bar:
        for index in torch.arange(len(images)).split(BATCH):
            purpose = ("evaluate", "drift", "views", int(index[0]))
            batch = images.batch(index, torch_generator(options.seed, *purpose))
            rows = represent(net, batch.two_views(), options.layer)  # (2B, d)
            both.append(rows.float().cpu().chunk(2))
            bar.reach(int(index[-1]) + 1)
    return tuple(map(torch.cat, zip(*both, strict=True)))


def _numbers(
    numbers: Sequence[Numbers], cka: list[list[float | None]]
) -> dict[str, Any]:
    """Means over the models; of CKA, over pairs of different models."""
    means = {key: _mean(found[key] for found in numbers) for key in numbers[0]}
    others = (cka[i][j] for i in range(len(cka)) for j in range(i))
    return {**means, "mean_cka": _mean(others), "cka": cka}


def _between(features: Sequence[Tensor]) -> float | None:
    """Mean uniformity between two models; None for one model, or for unequal widths."""
    if len({rows.shape[1] for rows in features}) > 1:
        return None
    return _mean(uniformity_between(x, y) for x, y in combinations(features, 2))


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
