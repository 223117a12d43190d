"""Labelled images to train and test on, for the protocols of evaluate."""

from dataclasses import dataclass
from pathlib import Path

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError
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
    seed: int | None = None
    runtime: Runtime = Runtime()
    dry_run: bool = False

    @property
    def inputs(self) -> list[Path]:
        """The files that are read, and so may not be written."""
        return [self.model, Path(self.train.name), Path(self.test.name)]


def open_labelled(options: Options, model: Checkpoint) -> tuple[ImageSet, ImageSet]:
    """The training and test images; they must have labels and fit the model."""
    train, test = options.train.images(), options.test.images()
    for images in (train, test):
        check_channels(images, architecture_of(model.path, model.facts), model.path)
        if images.labels is None:
            raise InputError(f"{images.name}: has no labels to evaluate with")
    return train, test
