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
    undivided = data and Path(data).exists() and not Source(data).has_splits
    if undivided and test is None:
        raise UsageError(
            f"--data {data}: has no test split of its own; give --test-data"
            f"{_folder_hint(Path(data))}"
        )
    train = Source(data, **place) if data else None
    test_source = Source(test or data, **place, split="test")
    return {**given, "train": train, "test": test_source}


def _folder_hint(path: Path) -> str:
    """A proposal to name the folder of an idx file, if the folder has both splits."""
    both = len(idx_splits(path.parent)) == 2
    return f", or --data {path.parent}, which has both splits" if both else ""


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
    return model, *open_pair(options.train, options.test, model, size)


def open_pair(
    train: Source, test: Source, model: Checkpoint, size: int | None = None
) -> tuple[ImageSet, ImageSet]:
    """Training and test images that have labels, fit the model and fit each other."""
    both = open_one(train, model, size), open_one(test, model, size)
    check_pair(*both)
    return both


def check_pair(train: ImageSet, test: ImageSet) -> None:
    """Test images are others than the training images, and of the same classes."""
    if same_dataset(train.fingerprint, test.fingerprint) is None:
        console.warn(
            f"{test.name}: has the same {len(test.images):,} images as {train.name}, so "
            "the score is that of images the classifier has learned; test on others"
        )
    check_class_names(train, test)


def check_class_names(train: ImageSet, test: ImageSet) -> None:
    """A class is known by its number, so its name must not have another number."""
    ours, theirs = train.class_names, test.class_names
    # Classes may have numbers in place of names, which say nothing.
    named = all(names != number_names(len(names)) for names in (ours, theirs))
    if not named or ours == theirs:
        return
    for number, name in enumerate(theirs):
        if name in ours and ours.index(name) != number:
            raise InputError(
                f"{test.name}: its class {number} is {name!r}, which is class "
                f"{ours.index(name)} of {train.name}; give test images of the same "
                "classes, in the same order"
            )
    pairs = enumerate(zip_longest(theirs, ours, fillvalue="missing"))
    number, (found, known) = next((n, pair) for n, pair in pairs if len({*pair}) > 1)
    console.warn(
        f"{test.name}: its class {number} is {found!r}, that of {train.name} is "
        f"{known!r}; classes are matched by number"
    )


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
        raise InputError(f"{images.without_labels} to evaluate with")
    return images
