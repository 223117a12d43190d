"""Neighbours of a client's own images: those of a file, and those that it kept."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.neighbours import Neighbours, check_neighbours, read_neighbours
from furlkit.files.private import Private
from furlkit.weights import Tensors

# Where a private file keeps them: places in the dataset, and the round they are of.
MEMORY = NEAREST, INDEX, ROUND = (
    "neighbours.nearest", "neighbours.index", "neighbours.round",
)  # fmt: skip


def open_neighbours(
    path: Path,
    client: ClientId,
    index: np.ndarray,
    images: ImageSet,
    nearest: int,
    site: bool,
) -> Neighbours:
    """Read a file of exactly the client's images, with so many neighbours at least.

    A `site` has all images of its data, and no partition.
    """
    found = read_neighbours(path)
    difference = same_dataset(found.facts.dataset, images.fingerprint)
    if not difference and not np.array_equal(found.index, index):
        difference = f"it has {len(found.index):,} images of part {found.facts.part}"
    if difference:
        how = "and this " if site else f"--part {client}, with this --partition and "
        raise InputError(
            f"{path}: is not of the {len(index):,} images of client {client}: "
            f"{difference}; create it with furlkit neighbours {how}--data"
        )
    k = min(nearest, len(index) - 1)
    if found.nearest.shape[1] < k:
        raise InputError(
            f"{path}: has {found.nearest.shape[1]} neighbours of each image, --nearest "
            f"asks for {k}; create it with more, or lower --nearest"
        )
    return replace(found, nearest=found.nearest[:, :k])


def remembered_neighbours(
    nearest: np.ndarray, index: np.ndarray, round_: int
) -> Tensors:
    """Neighbours as places in the dataset, as the memory of a private file."""
    return {NEAREST: nearest, INDEX: index, ROUND: np.array(round_, np.int64)}


def kept_neighbours(private: Private | None, index: np.ndarray) -> Tensors:
    """What a client kept of neighbours; nothing if it was of other images."""
    if private is None or NEAREST not in private.memory:
        return {}
    none = np.empty(0)
    nearest, kept, round_ = (private.memory.get(name, none) for name in MEMORY)
    check_neighbours(private.path, nearest, kept)
    if round_.shape or round_.dtype != np.int64:
        raise InputError(
            f"{private.path}: does not say of which round its neighbours are"
        )
    if not np.array_equal(kept, index):
        return {}
    return {NEAREST: nearest, INDEX: kept, ROUND: round_}


def positions(memory: Tensors) -> np.ndarray:
    """Neighbours (n, k) as positions among the client's n images."""
    index, nearest = memory[INDEX], memory[NEAREST]
    order = np.argsort(index)
    return order[np.searchsorted(index, nearest, sorter=order)]
