"""Private files: what a client keeps from round to round and never sends."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.header import Header
from furlkit.files.container.read import open_kind
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, understand

ENSEMBLE = "ensemble."


@dataclass(frozen=True)
class PrivateFacts:
    """Whose state it is, after which round, and what it is made of, in words."""

    client: int
    round: int
    holds: list[str]


@dataclass(frozen=True)
class Private:
    """A client's own state: tensors of its model by name, its ensemble Z and others."""

    path: Path
    facts: PrivateFacts
    tensors: dict[str, np.ndarray]
    content: str

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """Those that belong to the model."""
        return {k: v for k, v in self.tensors.items() if not k.startswith(ENSEMBLE)}


def write_private(
    path: Path,
    tensors: dict[str, np.ndarray],
    facts: PrivateFacts,
    provenance: Provenance,
) -> Header:
    """Write a client's own state. `aggregate` refuses such a file by its kind."""
    for name, array in tensors.items():
        check_finite(path, name, array)
    return write(path, tensors, provenance.header("private", facts))


def read_private(path: Path, client: int) -> Private:
    """Read the state of one client; another client's file is refused."""
    opened = open_kind(path, "private")
    facts = understand(path, opened.header, PrivateFacts, ("client", "round"))
    if facts.client != client:
        raise InputError(
            f"{path}: is private to client {facts.client}; pass the file of client "
            f"{client}"
        )
    tensors = opened.tensors()
    for name, array in tensors.items():
        check_finite(path, name, array)
    return Private(Path(path), facts, tensors, opened.content)
