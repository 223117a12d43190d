"""evaluate drift: measures of representations without labels, and their similarity."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from furlkit import console, runtime
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images, View
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError, UsageError
from furlkit.evaluation.collapse import effective_rank, lidar, rankme, spread
from furlkit.evaluation.drift import (
    alignment,
    false_negative_ratio,
    false_negative_weight,
    uniformity,
    uniformity_between,
)
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs import models
from furlkit.inputs.documents import Result, found_before, write_document
from furlkit.inputs.models import common_round, describe_models, open_models
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.settings import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import BATCH, embed, represent
from furlkit.models.loading import load_net, view_of
from furlkit.randomness import numpy_generator, torch_generator
from furlkit.reports.document import describe_checkpoint

Numbers = dict[str, float | None]


@dataclass(frozen=True, kw_only=True)
class DriftOptions(models.ModelOptions):
    """`part`: all, public or a client's number. `images`: maximum number of images.

    Images are drawn from the seed; 0 takes all images (the cost is quadratic).
    `temperature`: tau of the weights of false negatives.
    """

    partition: Path | None
    part: str
    images: int
    temperature: float
    augmentation: Augmentation
    seed: int


@dataclass(frozen=True)
class Sample:
    """Measured images: positions, and labels if known."""

    images: np.ndarray
    index: np.ndarray
    labels: Tensor | None


def run(values: dict[str, Any]) -> Result:
    """Measure each model on two views of images, and each pair of models by CKA."""
    known = recorded("evaluate drift", values)
    options = fill(DriftOptions, {**values, "recorded": known})
    images, compared = open_models(options, options.partition)
    index, contents = chosen_images(images, options.partition, options.part)
    sample = _sample(options, images, index)
    device = runtime.start(options.runtime)
    seen = f"{describe_models(compared)} on {len(sample.index):,} images"
    if options.dry_run:
        plan = {"protocol": "drift", "images": len(sample.index)}
        return f"would measure drift of {seen}", plan
    origins = {
        "protocol": "drift",
        "images": len(sample.index),
        "round": common_round(compared),
        "checkpoint": describe_checkpoint(compared[0]),
        "data": {"images": images.fingerprint, **contents},
        "inputs": {
            **contents,
            **{f"model {n}": m.content for n, m in enumerate(compared)},
        },
    }
    document = found_before(options, origins)
    if document is None:
        measured = [_measured(options, model, sample, device) for model in compared]
        cka = load(PROTOCOLS["drift"].function)
        numbers = [numbers for numbers, _ in measured]
        ratio = None if sample.labels is None else false_negative_ratio(sample.labels)
        found = {
            **origins,
            **_numbers(numbers, cka([rows for _, rows in measured])),
            "uniformity_between": _between([rows for _, rows in measured]),
            "false_negative_ratio": ratio,
            "models": [
                {**describe_checkpoint(model), **own}
                for model, own in zip(compared, numbers, strict=True)
            ],
        }
        document = write_document(options, found)
    cka = document["mean_cka"]
    line = (
        f"{options.output}: alignment {document['alignment']:.3f}, uniformity "
        f"{document['uniformity']:.2f}, effective rank "
        f"{document['effective_rank']:.1f}"
    )
    line += "" if cka is None else f", CKA {cka:.3f}"
    return f"{line} of {seen}", document


def _sample(options: DriftOptions, images: ImageSet, index: np.ndarray) -> Sample:
    if options.images == 1:
        raise UsageError("--images 1: drift compares pairs of images; take 2 or more")
    if 0 < options.images < len(index):
        draw = numpy_generator(options.seed, "evaluate", "drift", "images")
        index = np.sort(draw.choice(index, options.images, replace=False))
    if len(index) < 2:
        raise InputError(
            f"{images.name}: found {len(index)} image in the part {options.part}, "
            "drift compares pairs; take a larger part"
        )
    labels = None
    if images.labels is not None:
        labels = torch.from_numpy(np.asarray(images.labels)[index])
    return Sample(images.images, index, labels)


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
            weight = false_negative_weight(rows, labels.to(place), tau)
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
