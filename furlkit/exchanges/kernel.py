"""The mean kernel of Hetero-SSFL: cosines between public images, of all clients.

A client shares cosines by `embed --similarity` after training; aggregate --rule kernels
writes the mean, which every client receives in the next round. Clients have no weights in
common, so nets may differ.
"""

from typing import Any

import torch

from furlkit.errors import InputError
from furlkit.exchanges.exchange import Client, Exchange, Setup
from furlkit.exchanges.public import public_batches, public_source
from furlkit.exchanges.usage import Values
from furlkit.files.similarity import Similarity, cosines, read_similarity
from furlkit.inputs import matching
from furlkit.inputs.images import open_images
from furlkit.models.architecture import Net
from furlkit.models.description import z_width


class Kernel(Exchange):
    """The mean kernel and the public images, inputs of the term `cka`."""

    def __init__(self, values: Values) -> None:
        self._path = values["kernel"]
        self.active = bool(self._path)
        self._data = public_source(values, "kernel")

    def open(self, setup: Setup) -> None:
        self._setup, self._mean = setup, read_similarity(setup.readable(self._path))
        self._public = open_images(self._data, setup.model)
        cure = "give the images of embed in --kernel-data"
        matching.check_images(self._mean, self._public, cure)
        matching.check_channels(self._public, setup.model)
        _check_mean(self._mean, setup.model.facts.round)
        if self._mean.facts.layer == "z":
            z_width(setup.model)

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        setup, mean = self._setup, self._mean
        order = (*client.purpose, "kernel")
        return {
            # A copy: the matrix of the file is mapped, and read-only.
            "kernel": torch.tensor(cosines(mean.matrix), device=setup.device),
            "kernel_layer": mean.facts.layer,
            "kernel_images": public_batches(setup, self._public, mean.index, order),
        }


def _check_mean(mean: Similarity, round_: int) -> None:
    """Check that a file is a mean kernel for a model after `round_` rounds."""
    facts = mean.facts
    if facts.owners is None or mean.columns is not None:
        whose = "" if facts.client is None else f" of client {facts.client}"
        raise InputError(
            f"{mean.path}: holds similarities{whose}, expected the mean of all clients; "
            "create it with aggregate --rule kernels"
        )
    if facts.round is not None and facts.round > round_:
        raise InputError(
            f"{mean.path}: is of round {facts.round}, the model of round {round_}; use "
            "the kernel of the model's round"
        )
