"""Centroids of z: a client shares local ones with counts, and receives global ones.

Orchestra's clients cluster z of their images, and the server clusters the centroids
(aggregate --rule centroids). No class is involved. The clustering draws nothing, so a
resumed training shares the same rows.
"""

from typing import Any

import numpy as np
import torch

from furlkit import console
from furlkit.aggregators.centroids import centroids
from furlkit.errors import InputError
from furlkit.exchanges.dictionary import open_dictionary, warn_of_age
from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Kept,
    Setup,
    Trained,
    shared_rows_facts,
)
from furlkit.exchanges.usage import Values
from furlkit.files.features import Features, write_features
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.description import z_width
from furlkit.models.embedding import embed


class Centroids(Exchange):
    """Global centroids as input of the term; local centroids as a file with counts."""

    def __init__(self, values: Values) -> None:
        self._path, self._out = values["centroids"], values["centroids_out"]
        self._count = values["local_centroids"]
        self._equal_sizes = values["local_equal_sizes"]
        self.active = bool(self._path or self._out)

    def open(self, setup: Setup) -> None:
        self._setup, width = setup, z_width(setup.model)
        self._received: Features | None = None
        if self._path:
            self._received = open_dictionary(
                setup.readable(self._path), width, setup.model
            )
            warn_of_age(self._received, setup)
            if self._received.facts.part != "centroids":
                raise InputError(
                    f"{self._path}: has rows of {self._received.facts.part}; create "
                    "centroids with aggregate --rule centroids"
                )

    def check(self, client: Client) -> None:
        if self._out and "examples" not in self._setup.tell:
            console.warn(
                f"--centroids-out {self._out}: the counts add up to the number of images "
                f"of client {client.number}, which --tell leaves out"
            )

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        if self._received is None:
            return {}
        mu = torch.from_numpy(self._received.rows).float()
        return {"centroids": mu.to(self._setup.device)}

    def finish(self, client: Client, trained: Trained) -> Kept:
        if self._out:
            setup, images = self._setup, self._setup.images.images
            view, net = setup.plain_view(), trained.learner.net
            z = embed(net, images, client.index, view, "z").numpy()
            trained.results["local_centroids"] = self._share(client, z)
        return Kept({}, {})

    def _share(self, client: Client, z: np.ndarray) -> str:
        """Write the centroids of z (n, d); return the content hash of the file."""
        rows, counts = local_centroids(z, self._count, self._equal_sizes)
        facts = shared_rows_facts(self._setup, client, len(rows))
        path, places = fill(self._out, client.number), np.arange(len(rows))
        about = (places, facts, client.provenance)
        return write_features(path, rows, *about, counts=counts)


def local_centroids(
    z: np.ndarray, K: int, equal_sizes: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """At most K centroids of the directions of z (n, d), without empty clusters."""
    z = z[np.linalg.norm(z, axis=1) > 0]  # A row of zeros has no direction.
    how: dict[str, Any] = {"iterations": 100, "epsilon": 0.05}  # Like the server's.
    how["equal_sizes"] = equal_sizes
    rows, counts = centroids(z, np.ones(len(z)), centroids=min(K, len(z)), **how)
    return rows[counts > 0], counts[counts > 0]
