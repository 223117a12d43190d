"""attack: a hostile upload made from an honest upload, for research on rules.

w_g    the global model at the start of the client's training: --parent
w      the upload; u = w - w_g, the update
"""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, check_all_finite, read_checkpoint
from furlkit.files.clients import ClientId, is_client
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.read import Container, reading
from furlkit.files.container.write import write
from furlkit.files.features import read_features
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator
from furlkit.weights import Tensors, is_batchnorm_statistic

ROWS = "backdoor-rows"


@dataclass(frozen=True)
class Options:
    """Attacker and attack; options that do not apply to the kind are None."""

    upload: Path
    output: Path
    kind: str
    seed: int
    dry_run: bool
    clients: tuple[ClientId, ...] | None = None
    parent: Path | None = None
    of: Path | None = None
    factor: float | None = None
    row: int | None = None
    fraction: float | None = None


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Read the upload, change the tensors, and write the tensors with a new header."""
    options = fill(Options, values)
    check_output(options.output, [options.upload, options.parent, options.of])
    opened = Container(options.upload)
    client = opened.header.facts.get("client")
    if not is_client(client):
        raise InputError(
            f"{options.upload}: is no upload of a client; pass a file of local-train"
        )
    data = {"client": client, "kind": options.kind}
    if options.clients is not None and client not in options.clients:
        return _passed_on(options, opened, {**data, "kind": None})
    tensors = _hostile(options, (client, opened.header.facts.get("round", 0)))
    if not options.dry_run:
        data["content"] = write(options.output, tensors, opened.header.unsealed())
    return f"{options.output}: {options.kind} attack of client {client}", data


def _passed_on(options: Options, opened: Container, data: dict) -> tuple[str, dict]:
    """Copy the upload of a client that does not attack, byte by byte."""
    if not options.dry_run:
        with reading(options.upload):
            write_bytes(options.output, options.upload.read_bytes())
        data["content"] = opened.content
    return f"{options.output}: as client {data['client']} sent it", data


def _hostile(options: Options, who: tuple[ClientId, int]) -> Tensors:
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
    if parent.content != upload.facts.parent:
        raise InputError(
            f"{options.parent}: is not the model that {options.upload} was trained from"
        )
    _check_shapes(parent, upload)
    changed = {
        name: _changed(options, array, parent.tensors[name], rng)
        for name, array in upload.tensors.items()
        if array.dtype.kind == "f" and name in parent.tensors
        if not is_batchnorm_statistic(name)
    }
    return {**upload.tensors, **changed}


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
    options: Options, w: np.ndarray, w_g: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Return a tensor of the hostile upload, limited to the range of the type."""
    factor = options.factor or 0.0
    u = w.astype(np.float64) - w_g
    moves = {
        "scale": lambda: factor * u,
        "flip": lambda: -factor * u,
        "noise": lambda: factor * gaussian_like(u, rng),
    }
    largest = np.finfo(w.dtype).max
    return np.clip(w_g + moves[options.kind](), -largest, largest).astype(w.dtype)


def gaussian_like(u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Gaussian noise with about the length of u."""
    deviation = np.linalg.norm(u) / max(u.size, 1) ** 0.5
    return deviation * rng.normal(size=u.shape)


def _copied(options: Options, upload: Checkpoint) -> Tensors:
    """Return the tensors of --of for the client."""
    if options.of is None:
        raise UsageError("--kind copy: give the model to copy, --of CHECKPOINT")
    other = read_checkpoint(options.of).tensors
    for name, array in upload.tensors.items():
        if name not in other or other[name].shape != array.shape:
            raise InputError(f"{options.of}: lacks {name} {array.shape} of the upload")
    return {name: other[name] for name in upload.tensors}


def _planted(options: Options, rng: np.random.Generator) -> Tensors:
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
