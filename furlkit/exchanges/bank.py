"""The bank of instance discrimination: a row per image, in the private file."""

from typing import Any

import torch

from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Kept,
    Setup,
    Trained,
)
from furlkit.exchanges.usage import Values, is_asked_for
from furlkit.inputs.kept import kept_rows, remembered_rows
from furlkit.models.architecture import Net

BANK = "bank"  # Name of the tensor in the learner and in private files.


class Bank(Exchange):
    """The learner's rows of the client's images, of z's width."""

    memory = (BANK,)

    def __init__(self, values: Values) -> None:
        self.active = is_asked_for("bank", values)

    def open(self, setup: Setup) -> None:
        self._width = setup.architecture.heads["projector"][-1]
        self._device = setup.device

    def start(self, client: Client) -> None:
        self._rows = kept_rows(client.private, BANK, client.index, self._width)

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        return {BANK: torch.from_numpy(self._rows).to(self._device)}

    def finish(self, client: Client, trained: Trained) -> Kept:
        rows = getattr(trained.learner, BANK).cpu().numpy()
        return Kept({}, remembered_rows(BANK, rows, client.index))
