"""evaluate drift: measures of representations without labels, and their similarity."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.catalogue import recorded
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError, UsageError
from furlkit.inputs import models
from furlkit.inputs.documents import Result
from furlkit.inputs.models import describe_models, open_models
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator
from furlkit.stages.evaluate import measure_models, origins_of_models


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
    labels: np.ndarray | None


def run(values: dict[str, Any]) -> Result:
    """Measure each model on two views of images, and each pair of models by CKA."""
    known = recorded("evaluate drift", values)
    options = fill(DriftOptions, {**values, "recorded": known})
    images, compared = open_models(options, options.partition)
    index, contents = chosen_images(images, options.partition, options.part)
    sample = _sample(options, images, index)
    seen = f"{describe_models(compared)} on {len(sample.index):,} images"
    known = origins_of_models("drift", compared)
    known["inputs"] |= contents
    known["images"] = len(sample.index)
    known["data"] = {"images": images.fingerprint, **contents}
    line, plan = partial(_line, options, seen), f"would measure drift of {seen}"
    return measure_models(options, compared, sample, known, line, plan)


def _line(options: DriftOptions, seen: str, document: dict[str, Any]) -> str:
    cka = document["mean_cka"]
    line = (
        f"{options.output}: alignment {document['alignment']:.3f}, uniformity "
        f"{document['uniformity']:.2f}, effective rank "
        f"{document['effective_rank']:.1f}"
    )
    line += "" if cka is None else f", CKA {cka:.3f}"
    return f"{line} of {seen}"


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
        labels = np.asarray(images.labels)[index]
    return Sample(images.images, index, labels)
