"""Parts of a dataset: all images, the public part of a partition, or a client's."""

from pathlib import Path

import numpy as np

from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError, UsageError
from furlkit.files.partition import read_partition
from furlkit.inputs.matching import check_dataset


def chosen_images(
    images: ImageSet, path: Path | None, part: str
) -> tuple[np.ndarray, dict[str, str]]:
    """Return the indices of a part, and the content hash of the partition.

    `part` is all, public, or the number of a client.
    """
    index = np.arange(len(images.images))
    if path is None:
        if part != "all":
            raise UsageError(f"--part {part}: needs --partition")
        return index, {}
    partition = read_partition(path)
    check_dataset(partition, images)
    if part == "public":
        index = partition.public
    elif part.isdecimal():
        if int(part) >= partition.facts.clients:
            raise UsageError(
                f"--part {part}: {path} has the clients 0 to "
                f"{partition.facts.clients - 1}"
            )
        index = partition.of(int(part))
    elif part != "all":
        raise UsageError(f"--part {part}: expected all, public or a client")
    if not len(index):
        raise InputError(f"{path}: part {part} has no images")
    return index, {"partition": partition.content}
