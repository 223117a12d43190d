"""Checkpoints: the weights of a model and the facts needed to use them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.container.header import Header, short
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, open_facts


@dataclass(frozen=True)
class CheckpointFacts:
    """What a later stage must know of a checkpoint.

    `parent` is the content hash of the global model that training started from,
    `partition` that of the partition its clients trained under. `parts` names what is in
    the file, of an architecture that may have more; None stands for all of it. Without
    `statistics` each client keeps its own BatchNorm statistics. `cluster_losses` are
    those of its heads of clusters in the last epoch, and `cluster_head` is the head of
    lowest loss, which is the one to use; None where no clustering has compared them.
    `examples`, `classes` (images of each class by its name) and losses are None where a
    client does not tell them (local-train --tell). `init_seed` is what init drew heads
    that name classes or clusters from, by which one that nobody has trained is known.
    `reading` has the window of the images; None for images of 8 bits. `state` is the
    content hash of the server's state that was written together with a global model.
    """

    role: str
    round: int
    architecture: dict[str, Any]
    mean: list[float]
    std: list[float]
    client: ClientId | None = None
    examples: int | None = None
    parent: str | None = None
    partition: str | None = None
    loss: float | None = None
    parts: list[str] | None = None
    statistics: bool = True
    cluster_head: int | None = None
    cluster_losses: list[float] | None = None
    classes: dict[str, Any] | None = None
    init_seed: int | None = None
    reading: dict[str, Any] | None = None
    state: str | None = None


@dataclass(frozen=True)
class Checkpoint(Record[CheckpointFacts]):
    """A checkpoint in memory."""

    tensors: dict[str, np.ndarray]
    header: Header


def write_checkpoint(
    path: Path,
    tensors: dict[str, np.ndarray],
    facts: CheckpointFacts,
    provenance: Provenance,
) -> str:
    """Write a model, if its values are finite; gives its content hash."""
    check_all_finite(path, tensors)
    return write(path, tensors, provenance.header("checkpoint", facts))


def open_checkpoint(path: Path) -> tuple[Container, CheckpointFacts]:
    """Open a checkpoint and check its header; the tensors are not read yet."""
    opened, facts = open_facts(path, "checkpoint", CheckpointFacts, _updated)
    if facts.role not in ("global", "client", "align"):
        raise InputError(
            f"{path}: is a checkpoint of the unknown role {short(facts.role)}"
        )
    check_normalisation(path, facts.mean, facts.std, facts.architecture.get("channels"))
    return opened, facts


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint whole: hash checked, values finite."""
    opened, facts = open_checkpoint(path)
    tensors = opened.tensors()
    check_all_finite(path, tensors)
    return Checkpoint(opened.path, facts, opened.content, tensors, opened.header)


def check_all_finite(path: Path, tensors: dict[str, np.ndarray]) -> None:
    """Raise an error that names the first tensor with a value that is not finite."""
    for name, array in tensors.items():
        check_finite(path, name, array)


def check_finite(path: Path, name: str, array: np.ndarray) -> None:
    """Raise an error that names the tensor if a value is NaN or infinite."""
    # The sum of squares is not finite if any value is not; it needs no copy.
    if array.dtype.kind != "f" or np.isfinite(np.vdot(array, array)):
        return
    bad = np.size(array) - np.count_nonzero(np.isfinite(array))
    if bad:
        raise InputError(
            f"{path}: {name} has {bad} values that are NaN or infinite; "
            "the training that made it diverged, lower its --lr"
        )


def _updated(facts: dict[str, Any]) -> dict[str, Any]:
    left_out = facts.pop("left_out", None)
    return {**facts, "statistics": left_out is None}


def check_normalisation(
    path: Path, mean: list[float], std: list[float], channels: Any
) -> None:
    """Images are normalised by one mean and one std, above 0, for each channel."""
    count = channels if type(channels) is int else max(len(mean), 1)
    if len(mean) != count or len(std) != count or min(std) <= 0:
        raise InputError(
            f"{path}: its mean is {short(mean)} and its std {short(std)}; expected "
            f"{count} of each, std above 0; re-create it"
        )
