"""SCAN's and FedUSC's neighbours: the nearest images at the client.

Neighbours come from a file, from the private file, or from a search by h or z of the model
at the start of the round. A resumed training finds the same neighbours again.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError
from furlkit.evaluation.knn import nearest_others
from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Kept,
    Setup,
    Trained,
)
from furlkit.exchanges.usage import Values, is_asked_for
from furlkit.files.clients import ClientId
from furlkit.files.neighbours import Neighbours, check_neighbours, read_neighbours
from furlkit.files.private import Private
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.weights import Tensors

# Names in a private file: positions in the dataset, and the round of the search.
MEMORY = NEAREST, INDEX, ROUND = (
    "neighbours.nearest", "neighbours.index", "neighbours.round",
)  # fmt: skip


class NearestImages(Exchange):
    """Neighbours of every image: positions among the client's images."""

    memory = ("neighbours",)

    def __init__(self, values: Values) -> None:
        self.active = is_asked_for("neighbours", values)
        if not self.active:
            return
        self._count, self._layer = values["nearest"], values["mine_layer"]
        self._every, self._pattern = values["mine_every"], values["neighbours_from"]

    def open(self, setup: Setup) -> None:
        self._setup, by_z = setup, self._layer == "z" and not self._pattern
        if by_z and setup.architecture.z_dim is None:
            raise InputError(
                f"{setup.model.path}: has no projector, so no z to find neighbours by; "
                "use --mine-layer h, or create the model with init --head projector"
            )

    def start(self, client: Client) -> None:
        setup, index, others = self._setup, client.index, len(client.index) - 1
        self._file, self._known = None, {}  # type: Neighbours | None, Tensors
        if self._pattern:
            path, site = fill(self._pattern, client.number), setup.partition is None
            known = index, setup.images, self._count
            self._file = open_neighbours(path, client.number, *known, site=site)
            nearest, round_ = self._file.nearest, setup.round
            self._known = remembered_neighbours(nearest, self._file.index, round_)
        else:
            kept = kept_neighbours(client.private, index)
            self._known = self._still_good(kept, others)

    def check(self, client: Client) -> None:
        others = len(client.index) - 1
        if self._count > others:
            console.warn(
                f"--nearest {self._count}: client {client.number} has only {others:,} "
                "candidates per image, so every two images are neighbours and may "
                "collapse into one cluster; lower --nearest"
            )

    def _still_good(self, kept: Tensors, others: int) -> Tensors:
        """Return kept neighbours; empty for another number, or if too old."""
        if not kept or kept[NEAREST].shape[1] != min(self._count, others):
            return {}
        age = self._setup.round - int(kept[ROUND])
        return {} if self._every and age >= self._every else kept

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        if not self._known:
            self._known = self._mine(client, net)
        return {"neighbours": torch.from_numpy(positions(self._known))}

    def _mine(self, client: Client, net: Net) -> Tensors:
        setup, index = self._setup, client.index
        rows = embed(net, setup.images.images, index, setup.plain_view(), self._layer)
        rows = rows.to(setup.device)
        nearest = index[nearest_others(rows, self._count).cpu().numpy()]
        console.info(
            f"client {client.number}: mined {nearest.shape[1]} neighbours of each of the "
            f"{len(index):,} images by {self._layer}"
        )
        return remembered_neighbours(nearest, index, setup.round)

    def finish(self, client: Client, trained: Trained) -> Kept:
        return Kept({}, self._known)


def open_neighbours(
    path: Path,
    client: ClientId,
    index: np.ndarray,
    images: ImageSet,
    nearest: int,
    site: bool,
) -> Neighbours:
    """Read a file with `nearest` or more neighbours of exactly the client's images.

    A `site` uses every image of --data, without a partition.
    """
    found = read_neighbours(path)
    difference = same_dataset(found.facts.dataset, images.fingerprint)
    if not difference and not np.array_equal(found.index, index):
        difference = f"it has {len(found.index):,} images of part {found.facts.part}"
    if difference:
        how = "and this " if site else f"--part {client}, with this --partition and "
        raise InputError(
            f"{path}: lists neighbours for other images than the {len(index):,} images of "
            f"client {client}: {difference}; create the file with furlkit neighbours "
            f"{how}--data"
        )
    k = min(nearest, len(index) - 1)
    if found.nearest.shape[1] < k:
        raise InputError(
            f"{path}: has {found.nearest.shape[1]} neighbours of each image, --nearest "
            f"asks for {k}; create a file with more neighbours, or lower --nearest"
        )
    return replace(found, nearest=found.nearest[:, :k])


def remembered_neighbours(
    nearest: np.ndarray, index: np.ndarray, round_: int
) -> Tensors:
    """Memory for a private file: neighbours by position in the dataset."""
    return {NEAREST: nearest, INDEX: index, ROUND: np.array(round_, np.int64)}


def kept_neighbours(private: Private | None, index: np.ndarray) -> Tensors:
    """Neighbours in a private file; empty if the client's images have changed."""
    if private is None or NEAREST not in private.memory:
        return {}
    none = np.empty(0)
    nearest, kept, round_ = (private.memory.get(name, none) for name in MEMORY)
    check_neighbours(private.path, nearest, kept)
    if round_.shape or round_.dtype != np.int64:
        raise InputError(f"{private.path}: does not record the round of the neighbours")
    if not np.array_equal(kept, index):
        return {}
    return {NEAREST: nearest, INDEX: kept, ROUND: round_}


def positions(memory: Tensors) -> np.ndarray:
    """Positions (n, k) of the neighbours among the client's n images."""
    index, nearest = memory[INDEX], memory[NEAREST]
    order = np.argsort(index)
    return order[np.searchsorted(index, nearest, sorter=order)]
