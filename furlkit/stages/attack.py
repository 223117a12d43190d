"""attack: a hostile upload made from an honest upload, for research on rules.

w_g    the global model at the start of the client's training: --parent
w      the upload; u = w - w_g, the update

Attackers that collude read the updates of the KNOWN uploads; memory is these models.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import runtime
from furlkit.attacks.alie import largest_z
from furlkit.catalogue import ATTACKS, load
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, check_all_finite, read_checkpoint
from furlkit.files.clients import ClientId, is_client
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.read import Container, reading
from furlkit.files.container.write import write
from furlkit.files.features import read_features
from furlkit.files.replaceable import check_same_output
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.inputs.sites import unless_all
from furlkit.randomness import numpy_generator
from furlkit.weights import Tensors, is_batchnorm_statistic

ROWS, BACKDOOR = "backdoor-rows", "backdoor"
COLLUDING = ("alie", "ipm", "min-max", "sybil")


@dataclass(frozen=True)
class AttackOptions:
    """Attacker and attack; options that do not apply to the kind are None.

    `known`: uploads that colluding attackers know.
    """

    upload: Path
    known: tuple[Path, ...]
    output: Path
    kind: str
    seed: int
    dry_run: bool
    force: bool
    clients: tuple[ClientId, ...] | None = None
    parent: Path | None = None
    of: Path | None = None
    factor: float | None = None
    row: int | None = None
    fraction: float | None = None
    jitter: float | None = None
    direction: str | None = None
    target: int | None = None
    trigger: int | None = None
    steps: int | None = None
    lr: float | None = None
    data: Source | None = None
    partition: Path | None = None


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Read the upload, change the tensors, and write the tensors with a new header."""
    options = fill(AttackOptions, {**values, "clients": unless_all(values["clients"])})
    read = [options.upload, *options.known, options.parent, options.of]
    check_output(options.output, [*read, options.partition])
    opened = Container(options.upload)
    client = opened.header.facts.get("client")
    if not is_client(client):
        raise InputError(
            f"{options.upload}: is no upload of a client; pass a file of local-train"
        )
    if not options.force:
        header = opened.header
        check_same_output(options.output, "-o", header.kind, header.facts)
    data = {"client": client, "kind": options.kind}
    if options.clients is not None and client not in options.clients:
        return _passed_on(options, opened, {**data, "kind": None})
    tensors = _hostile(options, (client, opened.header.facts.get("round", 0)))
    if not options.dry_run:
        data["content"] = write(options.output, tensors, opened.header.unsealed())
    return f"{options.output}: {options.kind} attack of client {client}", data


def _passed_on(
    options: AttackOptions, opened: Container, data: dict
) -> tuple[str, dict]:
    """Copy the upload of a client that does not attack, byte by byte."""
    if not options.dry_run:
        with reading(options.upload):
            write_bytes(options.output, options.upload.read_bytes())
        data["content"] = opened.content
    return f"{options.output}: as client {data['client']} sent it", data


def _hostile(options: AttackOptions, who: tuple[ClientId, int]) -> Tensors:
    """Return the hostile tensors; `who`: client and round."""
    rng = numpy_generator(options.seed, "attack", options.kind, *who)
    if options.kind == ROWS:
        return _planted(options, rng)
    upload = read_checkpoint(options.upload)
    if options.kind == "copy":
        return _copied(options, upload)
    if options.parent is None:
        raise UsageError(
            f"--kind {options.kind}: give the global model of the client's round, "
            "--parent CHECKPOINT"
        )
    parent = read_checkpoint(options.parent)
    _check_start(parent, upload)
    if options.kind in COLLUDING:
        return {**upload.tensors, **_colluding(options, upload, parent, rng)}
    trained = upload.tensors
    if options.kind == BACKDOOR:
        trained = {**trained, **_with_backdoor(options, upload, rng)}
    changed = {
        name: _changed(options, trained[name], parent.tensors[name], rng)
        for name in _weights(upload, parent)
    }
    return {**upload.tensors, **changed}


def _weights(upload: Checkpoint, parent: Checkpoint) -> list[str]:
    """Names of the tensors that attacks change."""
    return [
        name
        for name, array in upload.tensors.items()
        if array.dtype.kind == "f" and name in parent.tensors
        if not is_batchnorm_statistic(name)
    ]


def _check_start(parent: Checkpoint, upload: Checkpoint) -> None:
    """Check that an upload was trained from this global model."""
    if parent.content != upload.facts.parent:
        raise InputError(
            f"{parent.path}: is not the model that {upload.path} was trained from"
        )
    _check_shapes(parent, upload)


def _colluding(
    options: AttackOptions,
    upload: Checkpoint,
    parent: Checkpoint,
    rng: np.random.Generator,
) -> Tensors:
    """Return the weights of the hostile upload, from the updates of the KNOWN uploads."""
    names = _weights(upload, parent)
    u = _hostile_update(options, _known_updates(options, parent, names))
    u += (options.jitter or 0.0) * gaussian_like(u, rng)
    sizes = np.cumsum([upload.tensors[name].size for name in names])
    parts = np.split(u, sizes[:-1])
    return {
        name: _moved(parent.tensors[name], part.reshape(upload.tensors[name].shape))
        for name, part in zip(names, parts, strict=True)
    }


def _known_updates(
    options: AttackOptions, parent: Checkpoint, names: Sequence[str]
) -> np.ndarray:
    """Updates of the KNOWN uploads, (m, n)."""
    if not options.known:
        raise UsageError(
            f"--kind {options.kind}: give the uploads that the attackers know after "
            "UPLOAD"
        )
    rows = []
    for path in options.known:
        one = read_checkpoint(path)
        _check_start(parent, one)
        if lacking := [name for name in names if name not in one.tensors]:
            raise InputError(f"{path}: lacks {lacking[0]} of {options.upload}")
        moves = (one.tensors[name] - parent.tensors[name] for name in names)
        rows.append(np.concatenate([move.ravel() for move in moves]))
    return np.stack(rows)


def _hostile_update(options: AttackOptions, updates: np.ndarray) -> np.ndarray:
    function = load(ATTACKS[options.kind].function)
    if options.kind == "min-max":
        return function(updates, direction=options.direction)
    factor = options.factor
    if factor is None:
        if options.clients is None:
            raise UsageError(
                "--kind alie: give the hostile clients, --clients, or z, --factor"
            )
        factor = largest_z(len(updates), len(options.clients))
    return function(updates, factor=factor)


def _with_backdoor(
    options: AttackOptions, upload: Checkpoint, rng: np.random.Generator
) -> Tensors:
    """Return the weights of an encoder with a backdoor."""
    # Only this attack needs torch, which takes a second to import.
    from furlkit.inputs.images import open_images
    from furlkit.inputs.parts import chosen_images
    from furlkit.training.backdoor import Backdoor, train_backdoor

    if options.data is None:
        raise UsageError("--kind backdoor: give the attacker's images, --data")
    runtime.start(runtime.Runtime("cpu"))
    images = open_images(options.data, upload)
    part = str(upload.facts.client) if options.partition else "all"
    index, _ = chosen_images(images, options.partition, part)
    target = options.target or 0
    if target >= len(images.images):
        raise UsageError(
            f"--target {target}: {options.data.name} has {len(images.images):,} images"
        )
    how = Backdoor(target, options.trigger or 1, options.steps or 1, options.lr or 0.0)
    return train_backdoor(upload, images.images, index, how, rng)


def _check_shapes(parent: Checkpoint, upload: Checkpoint) -> None:
    """Check that tensors with equal names have equal shapes."""
    for name, array in upload.tensors.items():
        theirs = parent.tensors.get(name, array)
        if theirs.shape != array.shape:
            raise InputError(
                f"{upload.path}: {name} is {array.shape}, {parent.path} has "
                f"{theirs.shape}; the upload was not trained from this model"
            )


def _changed(
    options: AttackOptions, w: np.ndarray, w_g: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a tensor of the hostile upload, limited to the range of the type."""
    factor = options.factor or 0.0
    u = w.astype(np.float64) - w_g
    moves = {
        "scale": lambda: factor * u,
        BACKDOOR: lambda: factor * u,
        "flip": lambda: -factor * u,
        "noise": lambda: factor * gaussian_like(u, rng),
    }
    return _moved(w_g, moves[options.kind]())


def _moved(w_g: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Return w_g + u, limited to the range of the type."""
    largest = np.finfo(w_g.dtype).max
    return np.clip(w_g + u, -largest, largest).astype(w_g.dtype)


def gaussian_like(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gaussian noise with about the length of u."""
    deviation = np.linalg.norm(u) / max(u.size, 1) ** 0.5
    return deviation * rng.normal(size=u.shape)


def _copied(options: AttackOptions, upload: Checkpoint) -> Tensors:
    """Return the tensors of --of for the client."""
    if options.of is None:
        raise UsageError("--kind copy: give the model to copy, --of CHECKPOINT")
    other = read_checkpoint(options.of).tensors
    for name, array in upload.tensors.items():
        if name not in other or other[name].shape != array.shape:
            raise InputError(f"{options.of}: lacks {name} {array.shape} of the upload")
    return {name: other[name] for name in upload.tensors}


def _planted(options: AttackOptions, rng: np.random.Generator) -> Tensors:
    """Return a client's shared rows, some of them replaced by a single row."""
    rows = read_features(options.upload).rows  # Checks the whole file.
    if not 0 <= (options.row or 0) < len(rows):
        raise UsageError(f"--row {options.row}: the file has rows 0 to {len(rows) - 1}")
    count = ceil((options.fraction or 0) * len(rows))
    replaced = rng.choice(len(rows), count, replace=False)
    tensors = Container(options.upload).tensors()
    planted: Mapping[str, np.ndarray] = {
        name: array.copy()
        for name, array in tensors.items()
        if name != "index" and array.shape[:1] == rows.shape[:1]
    }
    for array in planted.values():
        array[replaced] = array[options.row]
    check_all_finite(options.upload, dict(planted))
    return {**tensors, **planted}
