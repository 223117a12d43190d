"""Neighbour files: the nearest images of each image of a set, according to a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, check_fingerprint, open_facts


@dataclass(frozen=True)
class NeighbourFacts:
    """Layer (h or z), images, client and round of a neighbour file."""

    layer: str
    dataset: dict[str, Any]
    part: str
    examples: int
    client: ClientId | None = None
    round: int | None = None


@dataclass(frozen=True)
class Neighbours(Record[NeighbourFacts]):
    """For each image of `index` (n), the `nearest` images (n, k), nearest first.

    Both are positions in the dataset.
    """

    nearest: np.ndarray
    index: np.ndarray


def write_neighbours(
    path: Path,
    nearest: np.ndarray,
    index: np.ndarray,
    facts: NeighbourFacts,
    provenance: Provenance,
) -> str:
    """Write the nearest images of each image, as positions in the dataset."""
    tensors = {"nearest": nearest.astype(np.int64), "index": index.astype(np.int64)}
    return write(path, tensors, provenance.header("neighbours", facts))


def read_neighbours(path: Path) -> Neighbours:
    """Read a neighbour file; every neighbour must be another image of the set."""
    opened, facts = open_facts(path, "neighbours", NeighbourFacts)
    check_fingerprint(path, facts.dataset)
    opened.expect("nearest", "int64", facts.examples, "k")
    opened.expect("index", "int64", facts.examples)
    tensors = opened.tensors()
    nearest, index = tensors["nearest"], tensors["index"]
    check_neighbours(path, nearest, index)
    return Neighbours(opened.path, facts, opened.content, nearest, index)


def check_neighbours(path: Path, nearest: np.ndarray, index: np.ndarray) -> None:
    """Check the neighbours of each image (n, k): other images of the n images."""
    shapes = nearest.ndim == 2 and index.shape == nearest.shape[:1] and nearest.size
    whole = nearest.dtype == index.dtype == np.int64
    if not shapes or not whole or len(np.unique(index)) < len(index):
        raise InputError(
            f"{path}: has neighbours {nearest.dtype} {nearest.shape} of images "
            f"{index.dtype} {index.shape}; expected some of each image; re-create it"
        )
    strange = ~np.isin(nearest, index) | (nearest == index[:, None])
    if strange.any():
        row, place = np.argwhere(strange)[0]
        raise InputError(
            f"{path}: names image {nearest[row, place]} as a neighbour of image "
            f"{index[row]}; expected another image of the set; re-create it"
        )
