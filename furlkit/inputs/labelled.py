"""Labelled images to train and test on, for the protocols of evaluate."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.datasets import ImageSet, is_name
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing


@dataclass(frozen=True, kw_only=True)
class Options(Computing):
    """A model, and labelled images to train and test on.

    `seed` is None for a protocol without randomness. `model` may be None where it is
    not read from a file.
    """

    model: Path | None
    train: Source
    test: Source
    output: Path
    seed: int | None = None


def train_and_test(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with sources `train` and `test` in place of --data and --test-data.

    Without --test-data the test images are the test split of --data.
    """
    given = dict(values)
    data, test = given.pop("data"), given.pop("test_data")
    place = {key: given.pop(key) for key in ("data_root", "download", "cache")}
    if data and test is None and not is_name(data) and Path(data).exists():
        raise UsageError(
            f"--data {data}: has no test split of its own; give --test-data"
        )
    train = Source(data, **place) if data else None
    test_source = Source(test or data, **place, split="test")
    return {**given, "train": train, "test": test_source}


def open_labelled(
    options: Options, size: int | None = None
) -> tuple[Checkpoint, ImageSet, ImageSet]:
    """The model, and training and test images; they have labels and fit the model.

    `size` is that of its input, where it is not the model's own.
    """
    sources = (options.train, options.test)
    check_output(options.output, [options.model, *(s.name for s in sources)])
    if options.model is None:
        raise UsageError("CHECKPOINT: give the model to score, or --untrained")
    model = read_checkpoint(options.model)
    train, test = (open_one(source, model, size) for source in sources)
    return model, train, test


def domain_pairs(
    train: ImageSet, test: ImageSet
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Positions of the training and test images of each domain, by its name."""
    ours, theirs = train.by_domain(), test.by_domain()
    for images, held in ((train, ours), (test, theirs)):
        if not held:
            raise InputError(
                f"{images.name}: has no domains; pack several sources, or a folder with "
                "--domain-folders, or leave out --by-domain"
            )
    for name in sorted(ours.keys() ^ theirs.keys()):
        one, other = (train, test) if name in ours else (test, train)
        raise InputError(
            f"{other.name}: has no images of the domain {name}, which {one.name} has; "
            "pack both with the same domains and --domain-names"
        )
    return {name: (ours[name], theirs[name]) for name in ours}


def open_one(source: Source, model: Checkpoint, size: int | None = None) -> ImageSet:
    """Images that fit the model and have labels."""
    return check_labelled(open_images(source, model, size))


def check_labelled(images: ImageSet) -> ImageSet:
    """The images, which must have labels."""
    if images.labels is None:
        raise InputError(f"{images.name}: has no labels to evaluate with")
    return images
