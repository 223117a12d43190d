"""Ensemble files: which images the clients' models find similar, for `distill`.

Three forms. `rows`: the unit rows R_k of every client side by side, of which any part
of M is computed on demand. `top`: the largest cosines of every row of every
client. `matrix`: M itself, n x n, mapped into memory.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.header import Header, with_article
from furlkit.files.container.read import Container
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, check_fingerprint, understand

FORMS = ("rows", "top", "matrix")
RECREATE = "re-create it with aggregate --rule ensemble"


@dataclass(frozen=True)
class EnsembleFacts:
    """Whose similarities of which images, after which round; `temperature` is tau_T.

    `layer` is the output of the clients' models that was used, h or z.
    """

    form: str
    clients: list[int]
    round: int
    temperature: float
    dataset: dict[str, Any]
    part: str
    examples: int
    layer: str = "z"


@dataclass(frozen=True)
class Ensemble:
    """`parts` are by client: rows (n, d_k), or cosines (n, k) with their columns."""

    path: Path
    facts: EnsembleFacts
    index: np.ndarray
    content: str
    parts: dict[int, np.ndarray] = field(default_factory=dict)
    columns: dict[int, np.ndarray] = field(default_factory=dict)
    matrix: np.ndarray | None = None


def write_parts(
    path: Path,
    parts: dict[int, np.ndarray],
    columns: dict[int, np.ndarray],
    index: np.ndarray,
    facts: EnsembleFacts,
    provenance: Provenance,
) -> Header:
    """Write the parts of all clients side by side."""
    tensors = {"index": index.astype(np.int64)}
    for client, part in parts.items():
        check_finite(path, f"part_{client}", part)
        tensors[f"part_{client}"] = part.astype(np.float32)
    for client, places in columns.items():
        tensors[f"columns_{client}"] = places.astype(np.int32)
    return write(path, tensors, provenance.header("ensemble", facts))


def read_ensemble(path: Path) -> Ensemble:
    """Read an ensemble, checked; a matrix stays on disk and is mapped."""
    opened = Container(path)
    kind = opened.header.kind
    if kind != "ensemble":
        raise InputError(
            f"{path}: is {with_article(kind)} file; expected an ensemble, the output of "
            "aggregate --rule ensemble"
        )
    facts = understand(path, opened.header, EnsembleFacts, ("round", "examples"))
    check_fingerprint(path, facts.dataset)
    entry = opened.entry("index")
    if entry.dtype != np.int64 or len(entry.shape) != 1:
        raise InputError(
            f"{path}: its index is {entry.dtype} {entry.shape}; expected one int64 "
            f"for each image; {RECREATE}"
        )
    n = entry.shape[0]
    if facts.form not in FORMS or not facts.clients or n != facts.examples:
        raise InputError(
            f"{path}: is an ensemble of form {facts.form}, of {len(facts.clients)} "
            f"clients and {n} images, which is impossible; {RECREATE}"
        )
    if not 0 < facts.temperature < float("inf"):
        raise InputError(
            f"{path}: its temperature is {facts.temperature}; expected a number "
            f"above 0; {RECREATE}"
        )
    if facts.form == "matrix":
        entry = opened.entry("matrix")
        if entry.shape != (n, n) or entry.dtype != np.float32:
            raise InputError(
                f"{path}: its matrix is {entry.dtype} {entry.shape}; expected float32 "
                f"{(n, n)}; {RECREATE}"
            )
        index = opened.read(opened.entry("index"))
        opened.verify()
        matrix = opened.memmap("matrix")
        return Ensemble(Path(path), facts, index, opened.content, matrix=matrix)
    tensors = opened.tensors()
    parts = {k: _part(path, tensors, f"part_{k}", n) for k in facts.clients}
    columns = {}
    if facts.form == "top":
        columns = {k: _columns(path, tensors, k, n) for k in facts.clients}
    return Ensemble(
        Path(path), facts, tensors["index"], opened.content, parts, columns
    )  # fmt: skip


def _part(path: Path, tensors: dict[str, np.ndarray], name: str, n: int) -> np.ndarray:
    part = tensors.get(name)
    if part is None or part.dtype != np.float32 or part.ndim != 2 or len(part) != n:
        found = "missing" if part is None else f"{part.dtype} {part.shape}"
        raise InputError(
            f"{path}: {name} is {found}; expected float32 ({n}, ...); {RECREATE}"
        )
    check_finite(path, name, part)
    return part


def _columns(
    path: Path, tensors: dict[str, np.ndarray], client: int, n: int
) -> np.ndarray:
    columns, shape = tensors.get(f"columns_{client}"), tensors[f"part_{client}"].shape
    fits = columns is not None and columns.dtype == np.int32 and columns.shape == shape
    if columns is None or not fits or not _within(columns, n):
        raise InputError(
            f"{path}: columns_{client} do not fit its {n} images; {RECREATE}"
        )
    return columns


def _within(columns: np.ndarray, n: int) -> bool:
    return not columns.size or bool(0 <= columns.min() <= columns.max() < n)
