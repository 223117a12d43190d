"""Whether images, partition and model belong together."""

from pathlib import Path

from furlkit import console
from furlkit.data.datasets import ImageSet
from furlkit.data.fingerprint import comparable, same_dataset
from furlkit.errors import InputError
from furlkit.files.partition import Partition
from furlkit.nets import Architecture


def check_dataset(partition: Partition, images: ImageSet) -> None:
    """The partition must have been drawn over these images."""
    theirs = partition.facts.dataset
    same_size = theirs["examples"] == images.fingerprint["examples"]
    if same_size and not comparable(theirs, images.fingerprint):
        console.warn(
            f"{partition.path}: was made from labels alone and {images.name} has none, "
            "so nothing but the number of images could be compared"
        )
        return
    difference = same_dataset(theirs, images.fingerprint)
    if difference:
        raise InputError(
            f"{partition.path}: was made for another dataset than {images.name}: "
            f"{difference}; make the partition anew, or give the --data it was made for"
        )


def check_channels(images: ImageSet, architecture: Architecture, model: Path) -> None:
    """Grey images can feed a net for colour, not the other way round."""
    channels = images.images.shape[3]
    if channels > architecture.channels:
        raise InputError(
            f"{model}: takes grey images, {images.name} has colour; make the model "
            "with init --channels 3"
        )
