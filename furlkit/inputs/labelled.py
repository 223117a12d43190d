"""Labelled images to train and test on, for the protocols of evaluate."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.idx import idx_splits
from furlkit.data.sets.labels import number_names
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing


@dataclass(frozen=True, kw_only=True)
class LabelledOptions(Computing):
    """Model, and labelled images to train and test on.

    `seed` is None for a protocol without randomness. `model` is None for a model
    without a file.
    """

    model: Path | None
    train: Source
    test: Source
    output: Path
    seed: int | None = None


def train_and_test(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace --data and --test-data in the values by sources `train` and `test`.

    Without --test-data the test images are the test split of --data.
    """
    given = dict(values)
    data, test = given.pop("data"), given.pop("test_data")
    place = {key: given.pop(key) for key in ("data_root", "download", "cache")}
    undivided = data and Path(data).exists() and not Source(data).has_splits
    if undivided and test is None:
        raise UsageError(
            f"--data {data}: has no test split; give --test-data"
            f"{_folder_hint(Path(data))}"
        )
    train = Source(data, **place) if data else None
    test_source = Source(test or data, **place, split="test")
    return {**given, "train": train, "test": test_source}


def _folder_hint(path: Path) -> str:
    """Suggest the folder of an idx file, if the folder has both splits."""
    both = len(idx_splits(path.parent)) == 2
    return f", or --data {path.parent}, which has both splits" if both else ""


def open_labelled(
    options: LabelledOptions, size: int | None = None
) -> tuple[Checkpoint, ImageSet, ImageSet]:
    """Open the model, and labelled training and test images that fit the model.

    `size` replaces the model's input size.
    """
    sources = (options.train, options.test)
    check_output(options.output, [options.model, *(s.name for s in sources)])
    if options.model is None:
        raise UsageError("CHECKPOINT: give the model to score, or --untrained")
    model = read_checkpoint(options.model)
    return model, *open_pair(options.train, options.test, model, size)


def open_pair(
    train: Source, test: Source, model: Checkpoint, size: int | None = None
) -> tuple[ImageSet, ImageSet]:
    """Open a fitting pair of labelled training and test images for the model."""
    both = open_one(train, model, size), open_one(test, model, size)
    check_pair(*both)
    return both


def check_pair(train: ImageSet, test: ImageSet) -> None:
    """Check that test images differ from training images and have equal classes."""
    if same_dataset(train.fingerprint, test.fingerprint) is None:
        console.warn(
            f"{test.name}: has the same {len(test.images):,} images as {train.name}; "
            "the score is of images that the classifier has learned; test on other images"
        )
    check_class_names(train, test)


def check_class_names(train: ImageSet, test: ImageSet) -> None:
    """Check that a class name has one number, because numbers identify classes."""
    ours, theirs = train.class_names, test.class_names
    # Numbers instead of class names carry no information.
    named = all(names != number_names(len(names)) for names in (ours, theirs))
    if not named or ours == theirs:
        return
    for number, name in enumerate(theirs):
        if name in ours and ours.index(name) != number:
            raise InputError(
                f"{test.name}: class {number} is {name!r}, which is class "
                f"{ours.index(name)} of {train.name}; give test images with classes in "
                "the same order"
            )
    pairs = enumerate(zip_longest(theirs, ours, fillvalue="missing"))
    number, (found, known) = next((n, pair) for n, pair in pairs if len({*pair}) > 1)
    console.warn(
        f"{test.name}: class {number} is {found!r}, but {known!r} in {train.name}; "
        "classes are matched by number"
    )


def domain_pairs(
    train: ImageSet, test: ImageSet
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Positions of the training and test images of each domain, by domain name."""
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
    """Open labelled images that fit the model."""
    return check_labelled(open_images(source, model, size))


def check_labelled(images: ImageSet) -> ImageSet:
    """Return the images, which must have labels."""
    if images.labels is None:
        raise InputError(f"{images.without_labels} to evaluate with")
    return images
