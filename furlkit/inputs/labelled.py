"""Labelled images to train and test on, for the protocols of evaluate."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit.data.sets.datasets import ImageSet, names
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.matching import check_channels
from furlkit.models.loading import architecture_of
from furlkit.runtime import Runtime


@dataclass(frozen=True)
class Options:
    """A model, and labelled images to train and test on.

    `seed` is None for a protocol without randomness.
    """

    model: Path
    train: Source
    test: Source
    output: Path
    runtime: Runtime
    dry_run: bool
    recorded: dict[str, Any]
    seed: int | None = None

    @property
    def inputs(self) -> list[Path]:
        """The files that are read, and so may not be written."""
        return [self.model, Path(self.train.name), Path(self.test.name)]


def train_and_test(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with sources `train` and `test` in place of --data and --test-data.

    Without --test-data the test images are the test split of --data.
    """
    given = dict(values)
    data, test = given.pop("data"), given.pop("test_data")
    place = {key: given.pop(key) for key in ("data_root", "download")}
    if data and test is None and data not in names() and Path(data).exists():
        raise UsageError(
            f"--data {data}: has no test split of its own; give --test-data"
        )
    train = Source(data, **place) if data else None
    return {
        **given,
        "train": train,
        "test": Source(test or data, **place, split="test"),
    }


def open_labelled(options: Options, model: Checkpoint) -> tuple[ImageSet, ImageSet]:
    """The training and test images; they must have labels and fit the model."""
    train, test = options.train.images(), options.test.images()
    for images in (train, test):
        check_channels(images, architecture_of(model.path, model.facts), model.path)
        if images.labels is None:
            raise InputError(f"{images.name}: has no labels to evaluate with")
    return train, test
