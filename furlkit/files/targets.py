"""Target files: the alignment model's outputs h and z for the public images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.header import Header
from furlkit.files.container.read import open_kind
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, check_fingerprint, understand


@dataclass(frozen=True)
class TargetFacts:
    """Of which images, and by which net; `model` is the checkpoint's content hash."""

    model: str
    architecture: dict[str, Any]
    mean: list[float]
    std: list[float]
    dataset: dict[str, Any]
    examples: int


@dataclass(frozen=True)
class Targets:
    """h (n, ...) and z (n, ...); `index` gives each row's place in the dataset."""

    path: Path
    facts: TargetFacts
    h: np.ndarray
    z: np.ndarray
    index: np.ndarray
    content: str


def write_targets(
    path: Path,
    rows: dict[str, np.ndarray],
    index: np.ndarray,
    facts: TargetFacts,
    provenance: Provenance,
) -> Header:
    """Write the rows named h and z, and the place of each in the dataset."""
    for name in ("h", "z"):
        check_finite(path, name, rows[name])
    tensors = {"h": rows["h"], "z": rows["z"], "index": index.astype(np.int64)}
    return write(path, tensors, provenance.header("targets", facts))


def read_targets(path: Path) -> Targets:
    """Read a target file whole: values finite, lengths equal."""
    opened = open_kind(path, "targets")
    facts = understand(path, opened.header, TargetFacts, ("examples",))
    n = facts.examples
    check_fingerprint(path, facts.dataset)
    for name, kind, axes in (("h", "f", 2), ("z", "f", 2), ("index", "i", 1)):
        entry = opened.entry(name)
        if entry.dtype.kind != kind or len(entry.shape) != axes or entry.shape[0] != n:
            raise InputError(
                f"{path}: {name} is {entry.dtype} {entry.shape}; expected a row for each of "
                f"its {n} images"
            )
    tensors = opened.tensors()
    for name in ("h", "z"):
        check_finite(path, name, tensors[name])
    index = tensors["index"].astype(np.int64)
    return Targets(Path(path), facts, tensors["h"], tensors["z"], index, opened.content)
