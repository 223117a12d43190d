"""Correlation files: the mean of z z^T over images, for FedSC."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.clients import ClientId
from furlkit.files.container.read import Container, Tensors
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, open_facts

ROUNDING = 1e-4  # Difference between R and R^T, relative to the largest number.


@dataclass(frozen=True)
class CorrelationFacts:
    """Round and origin of a matrix: a `client`, or the mean of several `clients`.

    `parent`: content hash of the global model at the start of the clients' training.
    `run`: name of the run, inherited from the model.
    """

    round: int
    client: ClientId | None = None
    clients: int | None = None
    parent: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class Correlations(Record[CorrelationFacts]):
    """A symmetric matrix R (d, d) of float32."""

    R: np.ndarray


def write_correlations(
    path: Path, R: np.ndarray, facts: CorrelationFacts, provenance: Provenance
) -> str:
    """Write a matrix (d, d); return the content hash."""
    check_finite(path, "R", R)
    header = provenance.header("correlations", facts)
    return write(path, {"R": R.astype(np.float32)}, header)


def open_correlations(path: Path) -> tuple[Container, CorrelationFacts]:
    """Open a file and check the shape, without reading the matrix."""
    opened, facts = open_facts(path, "correlations", CorrelationFacts)
    rows, columns = opened.expect("R", "float32", "d", "d").shape
    if rows != columns:
        raise InputError(f"{path}: R is {rows} x {columns}, expected a square matrix")
    return opened, facts


def correlations_of(
    opened: Container, facts: CorrelationFacts, tensors: Tensors
) -> Correlations:
    """Check the matrix of a file opened by `open_correlations`: finite and symmetric."""
    R = tensors["R"]
    check_finite(opened.path, "R", R)
    most = np.abs(R - R.T).max(initial=0)
    if most > ROUNDING * max(float(np.abs(R).max(initial=0)), 1.0):
        raise InputError(
            f"{opened.path}: R differs from its transpose by {most:.3g}; correlations are "
            "symmetric; create the file with local-train --correlations-out"
        )
    return Correlations(opened.path, facts, opened.content, R)


def read_correlations(path: Path) -> Correlations:
    """Read a whole file."""
    opened, facts = open_correlations(path)
    return correlations_of(opened, facts, opened.tensors())
