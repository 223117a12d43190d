"""Private files: a client's state between rounds, never sent.

Parts of the client's model keep their names; the memory of methods has the prefix
`memory.`, for example `memory.averaged_features.rows` of FedCA.
"""

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_all_finite
from furlkit.files.clients import ClientId
from furlkit.files.container.atomic import OWNER
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, open_facts

MEMORY = "memory."
# Prefix of FedCA's averaged features in format version 1.
VERSION_1_MEMORY = "ensemble."


@dataclass(frozen=True)
class PrivateFacts:
    """Owner, round and content of a private file.

    `parts`: parts of the model. `memory`: names of the methods' tensors. `dataset`:
    fingerprint of a site's images, which an index points into. `secret`: fingerprint of
    the secret of the round's draws; None without draws, and in older files.
    """

    client: ClientId
    round: int
    parts: list[str]
    memory: list[str]
    dataset: dict[str, Any] | None = None
    secret: str | None = None


@dataclass(frozen=True)
class Private(Record[PrivateFacts]):
    """Private state of a client: tensors of the model, and memory of methods, by name.

    `options`: options of the command that wrote the file. `partition`: content hash of
    the clients' partition; None for a site's file.
    """

    tensors: dict[str, np.ndarray]
    memory: dict[str, np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)
    partition: str | None = None

    @property
    def nbytes(self) -> int:
        """Number of bytes of all tensors."""
        arrays = (*self.tensors.values(), *self.memory.values())
        return sum(array.nbytes for array in arrays)


def write_private(
    path: Path,
    tensors: dict[str, np.ndarray],
    memory: dict[str, np.ndarray],
    facts: PrivateFacts,
    provenance: Provenance,
) -> str:
    """Write a client's state, readable by the user only; `aggregate` refuses it.

    The provenance knows the fingerprint of the secret.
    """
    facts = replace(facts, secret=provenance.secret)
    everything = {**tensors, **{MEMORY + name: v for name, v in memory.items()}}
    check_all_finite(path, everything)
    return write(path, everything, provenance.header("private", facts), OWNER)


def read_private(path: Path, client: ClientId | None = None) -> Private:
    """Read the state of a client; refuse a file of another client than `client`."""
    opened, facts = open_facts(path, "private", PrivateFacts, _updated)
    if client not in (None, facts.client):
        raise InputError(
            f"{path}: is private to client {facts.client}; it was given to client {client}"
        )
    tensors, memory = opened.tensors(), {}
    check_all_finite(path, tensors)
    prefix, method = MEMORY, ""
    if opened.header.version == 1:
        prefix, method = VERSION_1_MEMORY, "averaged_features."
    for name in [name for name in tensors if name.startswith(prefix)]:
        memory[method + name.removeprefix(prefix)] = tensors.pop(name)
    header = opened.header
    return Private(
        opened.path, facts, opened.content, tensors, memory, header.options,
        header.inputs.get("partition"),
    )  # fmt: skip


def _updated(facts: dict[str, Any]) -> dict[str, Any]:
    facts.pop("holds", None)
    return {**facts, "parts": [], "memory": []}
