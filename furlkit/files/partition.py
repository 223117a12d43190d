"""Partition files: the images of each client, and the public images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError, UsageError
from furlkit.files.clients import ClientId
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, check_fingerprint, open_facts

PUBLIC = "public"  # The server's part, and the server's name if it trains.


@dataclass(frozen=True)
class PartitionFacts:
    """Scheme, number of clients, and fingerprint of the dataset behind the indices.

    `domain_names`: None if clients mix domains, and in older files.
    """

    scheme: str
    clients: int
    dataset: dict[str, Any]
    class_names: list[str]
    domain_names: list[str] | None = None


@dataclass(frozen=True)
class Partition(Record[PartitionFacts]):
    """Indices of the clients: client k has indices[offsets[k]:offsets[k+1]].

    `histogram`: count of labels, a row for each client; no columns without labels.
    `domains`: domain of each client, -1 for a client without images; None if clients
    mix domains. `groups`: hash of the groups, which clients never share; None for
    images without groups.
    """

    indices: np.ndarray
    offsets: np.ndarray
    public: np.ndarray
    histogram: np.ndarray
    domains: np.ndarray | None = None
    groups: str | None = None

    def of(self, client: ClientId) -> np.ndarray:
        """Return the indices of a client, or of the server, called "public"."""
        if client == PUBLIC and len(self.public):
            return self.public
        if isinstance(client, str) or not 0 <= client < self.facts.clients:
            raise UsageError(
                f"--client {client}: {self.path} has the clients 0 to "
                f"{self.facts.clients - 1}"
            )
        return self.indices[self.offsets[client] : self.offsets[client + 1]]

    def domain_of(self, client: int) -> str | None:
        """Return the name of a client's domain; None if the client mixes domains."""
        held = -1 if self.domains is None else self.domains[client]
        return None if held < 0 else (self.facts.domain_names or [])[held]

    @property
    def sizes(self) -> np.ndarray:
        """Number of images of each client."""
        return np.diff(self.offsets)


def write_partition(
    path: Path,
    parts: list[np.ndarray],
    public: np.ndarray,
    histogram: np.ndarray,
    facts: PartitionFacts,
    provenance: Provenance,
    domains: np.ndarray | None = None,
) -> str:
    """Write the indices of every client and of the public part."""
    tensors = {
        "indices": np.concatenate([*parts, np.empty(0, np.int64)]).astype(np.int64),
        "offsets": np.cumsum([0, *map(len, parts)], dtype=np.int64),
        "public": public.astype(np.int64),
        "histogram": histogram.astype(np.int64),
    }
    if domains is not None:
        tensors["domains"] = domains.astype(np.int64)
    return write(path, tensors, provenance.header("partition", facts))


def read_partition(path: Path) -> Partition:
    """Read a partition and check the indices."""
    opened, facts = open_facts(path, "partition", PartitionFacts)
    check_fingerprint(path, facts.dataset)
    for name in ("indices", "offsets", "public"):
        opened.expect(name, "int64", "n")
    opened.expect("histogram", "int64", "clients", "classes")
    if "domains" in opened:
        opened.expect("domains", "int64", "clients")
    tensors = opened.tensors()
    partition = Partition(
        opened.path, facts, opened.content, tensors["indices"], tensors["offsets"],
        tensors["public"], tensors["histogram"], tensors.get("domains"),
        opened.header.inputs.get("groups"),
    )  # fmt: skip
    _check(partition)
    _check_domains(partition)
    return partition


def _check_domains(partition: Partition) -> None:
    names, domains = partition.facts.domain_names, partition.domains
    if domains is None:
        return
    known = range(-1, len(names or ()))
    if len(domains) != partition.facts.clients or not np.isin(domains, known).all():
        raise InputError(
            f"{partition.path}: the domains of the clients do not fit "
            f"{partition.facts.clients} clients and {len(names or ())} names; re-create "
            "the partition"
        )


def _check(partition: Partition) -> None:
    examples = partition.facts.dataset["examples"]
    offsets, indices = partition.offsets, partition.indices
    used = np.concatenate([indices, partition.public])
    fits = (
        offsets.shape == (partition.facts.clients + 1,)
        and len(partition.histogram) == partition.facts.clients
        and offsets[0] == 0
        and offsets[-1] == len(indices)
        and bool(np.all(np.diff(offsets) >= 0))
        and (not len(used) or (used.min() >= 0 and used.max() < examples))
    )
    if not fits:
        raise InputError(
            f"{partition.path}: indices do not fit {partition.facts.clients} "
            f"clients over {examples} examples; re-create the partition"
        )
    names, classes = partition.facts.class_names, partition.histogram.shape[1]
    if names and len(names) < classes:
        raise InputError(
            f"{partition.path}: names {len(names)} classes and counts {classes}; "
            "re-create the partition"
        )
