"""Ensemble files: similarities of images in the clients' models, for `distill`.

Three forms. `rows`: the unit rows R_k of every client; any part of M is computed on
demand. `top`: the largest cosines of every row of every client. `matrix`: M, n x n,
mapped into memory.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_all_finite
from furlkit.files.clients import ClientId
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, check_fingerprint, open_facts
from furlkit.files.similarity import check_columns

FORMS = ("rows", "top", "matrix")
RECREATE = "re-create it with aggregate --rule ensemble"


@dataclass(frozen=True)
class EnsembleFacts:
    """Clients, images and round of an ensemble; `temperature` is tau_T.

    `layer`: output of the clients' models, h or z. `run`: name of the run. `trim`: share
    of the clients cut off at either end of every similarity; None for the mean.
    """

    form: str
    clients: list[ClientId]
    round: int
    temperature: float
    dataset: dict[str, Any]
    part: str
    examples: int
    layer: str = "z"
    run: str | None = None
    trim: float | None = None


@dataclass(frozen=True)
class Ensemble(Record[EnsembleFacts]):
    """`parts` by client: rows (n, d_k), or cosines (n, k) with `columns`."""

    index: np.ndarray
    parts: dict[ClientId, np.ndarray] = field(default_factory=dict)
    columns: dict[ClientId, np.ndarray] = field(default_factory=dict)
    matrix: np.ndarray | None = None


def write_parts(
    path: Path,
    parts: dict[ClientId, np.ndarray],
    columns: dict[ClientId, np.ndarray],
    index: np.ndarray,
    facts: EnsembleFacts,
    provenance: Provenance,
) -> str:
    """Write the parts of the clients, one tensor per client."""
    tensors = {"index": index.astype(np.int64)}
    tensors |= {f"part_{k}": part.astype(np.float32) for k, part in parts.items()}
    tensors |= {f"columns_{k}": c.astype(np.int32) for k, c in columns.items()}
    check_all_finite(path, tensors)
    return write(path, tensors, provenance.header("ensemble", facts))


def read_ensemble(path: Path) -> Ensemble:
    """Read and check an ensemble; a matrix stays on disk and is mapped."""
    opened, facts = open_facts(path, "ensemble", EnsembleFacts)
    check_fingerprint(path, facts.dataset)
    (n,) = opened.expect("index", "int64", "n").shape
    if facts.form not in FORMS or not facts.clients or n != facts.examples:
        raise InputError(
            f"{path}: is an ensemble of form {facts.form}, of {len(facts.clients)} "
            f"clients and {n} images, which is impossible; {RECREATE}"
        )
    if not 0 < facts.temperature < float("inf"):
        raise InputError(
            f"{path}: the temperature is {facts.temperature}; expected a number "
            f"above 0; {RECREATE}"
        )
    if facts.trim is not None and not 0 <= facts.trim < 0.5:
        raise InputError(
            f"{path}: the share to cut off is {facts.trim}; expected a number from 0 to "
            f"below 0.5; {RECREATE}"
        )
    if facts.form == "matrix":
        opened.expect("matrix", "float32", n, n)
        index = opened.read(opened.entry("index"))
        opened.verify()
        matrix = opened.memmap("matrix")
        return Ensemble(opened.path, facts, opened.content, index, matrix=matrix)
    for k in facts.clients:
        shape = opened.expect(f"part_{k}", "float32", n, "d").shape
        if facts.form == "top":
            opened.expect(f"columns_{k}", "int32", *shape)
    tensors = opened.tensors()
    check_all_finite(path, tensors)
    parts = {k: tensors[f"part_{k}"] for k in facts.clients}
    columns = {k: tensors[f"columns_{k}"] for k in parts if facts.form == "top"}
    for k, places in columns.items():
        check_columns(path, f"columns_{k}", places, n)
    index = tensors["index"]
    return Ensemble(opened.path, facts, opened.content, index, parts, columns)
