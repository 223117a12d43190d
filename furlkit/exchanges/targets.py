"""FedCA's alignment targets: h and z of public images by a common model."""

from typing import Any

import numpy as np
import torch

from furlkit import console
from furlkit.exchanges.exchange import Client, Exchange, Setup
from furlkit.exchanges.public import public_batches, public_source
from furlkit.exchanges.usage import Values
from furlkit.files.targets import read_targets
from furlkit.inputs import matching
from furlkit.inputs.images import open_images
from furlkit.models.architecture import Net
from furlkit.models.description import z_width


class Targets(Exchange):
    """Public images with targets, the inputs of the alignment term."""

    def __init__(self, values: Values) -> None:
        self._path = values["align"]
        self.active = bool(self._path)
        self._data = public_source(values, "align")

    def open(self, setup: Setup) -> None:
        z_width(setup.model)
        self._setup, self._targets = setup, read_targets(setup.readable(self._path))
        self._public = open_images(self._data, setup.model)
        matching.check_targets(self._targets, self._public, setup.model)
        if self._targets.facts.dataset == setup.images.fingerprint:
            self._name_private_images(setup)

    def _name_private_images(self, setup: Setup) -> None:
        """Warn about targets of a client's images: a server has no private images."""
        for client in setup.clients:
            shared = np.isin(self._targets.index, setup.index_of(client)).sum()
            if shared:
                console.warn(
                    f"{self._path}: {shared:,} of {len(self._targets.index):,} images are "
                    f"images of client {client}, so they are not public; create the "
                    "targets with pretrain-align --partition P --part public"
                )
                return

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        setup, targets = self._setup, self._targets
        order = (*client.purpose, "align")
        public = public_batches(setup, self._public, targets.index, order)
        both = (torch.from_numpy(rows).float() for rows in (targets.h, targets.z))
        h, z = (rows.to(setup.device) for rows in both)
        return {"public": public, "h_align": h, "z_align": z}
