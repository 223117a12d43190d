"""Target files: the alignment model's outputs h and z for the public images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.files.checkpoint import check_all_finite
from furlkit.files.container.read import FLOATS, Readable
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, check_fingerprint, open_facts


@dataclass(frozen=True)
class TargetFacts:
    """Images and network of a target file; `model`: the checkpoint's content hash."""

    model: str
    architecture: dict[str, Any]
    mean: list[float]
    std: list[float]
    dataset: dict[str, Any]
    examples: int


@dataclass(frozen=True)
class Targets(Record[TargetFacts]):
    """h (n, ...) and z (n, ...); `index`: position of each row in the dataset."""

    h: np.ndarray
    z: np.ndarray
    index: np.ndarray


def write_targets(
    path: Path,
    rows: dict[str, np.ndarray],
    index: np.ndarray,
    facts: TargetFacts,
    provenance: Provenance,
) -> str:
    """Write the rows h and z, and the position of each row in the dataset."""
    tensors = {"h": rows["h"], "z": rows["z"], "index": index.astype(np.int64)}
    check_all_finite(path, tensors)
    return write(path, tensors, provenance.header("targets", facts))


def read_targets(file: Readable) -> Targets:
    """Read a whole target file: values finite, lengths equal."""
    opened, facts = open_facts(file, "targets", TargetFacts)
    path, n = opened.path, facts.examples
    check_fingerprint(path, facts.dataset)
    for name in ("h", "z"):
        opened.expect(name, FLOATS, n, "d")
    opened.expect("index", "int64", n)
    tensors = opened.tensors()
    check_all_finite(path, tensors)
    h, z, index = (tensors[name] for name in ("h", "z", "index"))
    return Targets(path, facts, opened.content, h, z, index)
