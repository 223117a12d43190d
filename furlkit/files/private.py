"""Private files: what a client keeps from round to round and never sends.

Parts of its model stand under their own names; what methods remember stands behind
`memory.`, as `memory.averaged_features.rows` of FedCA.
"""

from dataclasses import dataclass, field
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
# What format version 1 called FedCA's averaged features.
VERSION_1_MEMORY = "ensemble."


@dataclass(frozen=True)
class PrivateFacts:
    """Whose state it is, after which round, and what it holds.

    `parts` are those of the model, `memory` the names of what methods remember. A site
    keeps the fingerprint of its images too, the `dataset` that an index points into.
    """

    client: ClientId
    round: int
    parts: list[str]
    memory: list[str]
    dataset: dict[str, Any] | None = None


@dataclass(frozen=True)
class Private(Record[PrivateFacts]):
    """A client's own state: tensors of its model, and memory of its methods, by name.

    `options` are those of the command that made it.
    """

    tensors: dict[str, np.ndarray]
    memory: dict[str, np.ndarray]
    options: dict[str, Any] = field(default_factory=dict)


def write_private(
    path: Path,
    tensors: dict[str, np.ndarray],
    memory: dict[str, np.ndarray],
    facts: PrivateFacts,
    provenance: Provenance,
) -> str:
    """Write a client's own state, for its owner alone; `aggregate` refuses its kind."""
    everything = {**tensors, **{MEMORY + name: v for name, v in memory.items()}}
    check_all_finite(path, everything)
    return write(path, everything, provenance.header("private", facts), OWNER)


def read_private(path: Path, client: ClientId | None = None) -> Private:
    """Read the state of one client; that of another client than `client` is refused."""
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
    options = opened.header.options
    return Private(opened.path, facts, opened.content, tensors, memory, options)


def _updated(facts: dict[str, Any]) -> dict[str, Any]:
    facts.pop("holds", None)
    return {**facts, "parts": [], "memory": []}
