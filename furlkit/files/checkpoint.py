"""Checkpoints: weights of a model, and the facts needed to use the weights."""

from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.clients import ClientId
from furlkit.files.container.header import Header, short
from furlkit.files.container.read import Container, Readable, Tensors
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, open_facts


@dataclass(frozen=True)
class CheckpointFacts:
    """Facts about a checkpoint for later stages.

    `parent`: content hash of the global model at the start of training. `partition`:
    content hash of the clients' partition. `parts`: parts of the architecture in the
    file; None: the whole model. `statistics`: false if each client keeps BatchNorm
    statistics private. `cluster_losses`: losses of the cluster heads in the last epoch;
    `cluster_head`: the head with the lowest loss, used by later stages; None if no
    clustering has compared the heads. `examples`, `classes` (images by class name) and
    losses are None if the client does not disclose them (local-train --tell).
    `init_seed`: the seed of class or cluster heads drawn by init; identifies untrained
    heads. `reading`: window of the images; None for 8-bit images. `state`: content hash
    of the server's state written together with a global model. `run`: id of the run, by
    init, which later files inherit: a hash (`run_id`), or the name of init --run-name.
    None in files of earlier versions. `privacy`: epsilon, delta and the rounds with noise
    so far (aggregate --noise). `next_clip`: clip norm of the next round, if adaptive.
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
    run: str | None = None
    privacy: dict[str, Any] | None = None
    next_clip: float | None = None


@dataclass(frozen=True)
class Checkpoint(Record[CheckpointFacts]):
    """A checkpoint in memory."""

    tensors: dict[str, np.ndarray]
    header: Header


def write_checkpoint(
    path: Path, tensors: Tensors, facts: CheckpointFacts, provenance: Provenance
) -> str:
    """Write a model with finite values; return the content hash."""
    check_all_finite(path, tensors)
    return write(path, tensors, provenance.header("checkpoint", facts))


def run_id(tensors: Tensors, facts: CheckpointFacts, provenance: Provenance) -> str:
    """Return the id of the run that starts from a model: 16 digits of a hash.

    The hash covers options, seed, inputs, facts and weights, so an equal command gives an
    equal id: two runs of one command need names.
    """
    digest = sha256(provenance.header("checkpoint", facts).to_json().encode())
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensors[name]).data)
    return digest.hexdigest()[:16]


def open_checkpoint(file: Readable) -> tuple[Container, CheckpointFacts]:
    """Open a checkpoint and check the header, without reading tensors."""
    opened, facts = open_facts(file, "checkpoint", CheckpointFacts, _updated)
    path = opened.path
    if facts.role not in ("global", "client", "align"):
        raise InputError(
            f"{path}: is a checkpoint of the unknown role {short(facts.role)}"
        )
    if facts.role == "global" and facts.client is not None:
        # Signers take the signer from the client: a client must not pass as the server.
        raise InputError(
            f"{path}: is a checkpoint of role global that names client {facts.client}; "
            "a global model names no client, get the file from the server"
        )
    check_normalisation(path, facts.mean, facts.std, facts.architecture.get("channels"))
    return opened, facts


def read_checkpoint(file: Readable) -> Checkpoint:
    """Read a whole checkpoint; checks the hash and that values are finite."""
    opened, facts = open_checkpoint(file)
    tensors = opened.tensors()
    check_all_finite(opened.path, tensors)
    return Checkpoint(opened.path, facts, opened.content, tensors, opened.header)


def check_all_finite(path: Path, tensors: Tensors) -> None:
    """Raise an error naming the first tensor with a NaN or an infinite value."""
    for name, array in tensors.items():
        check_finite(path, name, array)


def check_finite(path: Path, name: str, array: np.ndarray) -> None:
    """Raise an error that names the tensor if a value is NaN or infinite."""
    # The sum of squares is finite only if every value is; summing needs no copy.
    if array.dtype.kind != "f" or np.isfinite(np.vdot(array, array)):
        return
    bad = np.size(array) - np.count_nonzero(np.isfinite(array))
    if bad:
        raise InputError(
            f"{path}: {name} has {bad} values that are NaN or infinite; "
            "the training diverged, lower --lr"
        )


def _updated(facts: dict[str, Any]) -> dict[str, Any]:
    left_out = facts.pop("left_out", None)
    return {**facts, "statistics": left_out is None}


def check_normalisation(
    path: Path, mean: list[float], std: list[float], channels: Any
) -> None:
    """Check that mean and std (above 0) have a number for each channel."""
    count = channels if type(channels) is int else max(len(mean), 1)
    if len(mean) != count or len(std) != count or min(std) <= 0:
        raise InputError(
            f"{path}: mean is {short(mean)} and std is {short(std)}; expected "
            f"{count} of each, std above 0; re-create it"
        )
