"""Feature and similarity files: what a model makes of a set of images."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files import container
from furlkit.files.checkpoint import check_finite
from furlkit.files.facts import Provenance, understand
from furlkit.files.header import Header
from furlkit.files.layout import Entry


@dataclass(frozen=True)
class FeatureFacts:
    """Which layer (h or z), of which images, by which client's model of which round.

    `parent` is the content hash of the global model the client started from, and
    `owners` says of a dictionary whose rows follow each other: [client, rows].
    """

    layer: str
    dataset: dict[str, Any]
    part: str
    client: int | None = None
    round: int | None = None
    examples: int | None = None
    parent: str | None = None
    owners: list[list[int]] | None = None


@dataclass(frozen=True)
class Features:
    """Rows of features; `index` gives each row's place in the dataset.

    Rows that a client shares, and a dictionary made of them, are only numbered: of
    which images they are stays with the client.
    """

    path: Path
    facts: FeatureFacts
    rows: np.ndarray
    index: np.ndarray
    content: str


@dataclass(frozen=True)
class Similarity:
    """A square matrix of similarities; `index` names the image of row and column i."""

    path: Path
    facts: FeatureFacts
    matrix: np.ndarray
    index: np.ndarray
    content: str


def write_features(
    path: Path,
    rows: np.ndarray,
    index: np.ndarray,
    facts: FeatureFacts,
    made: Provenance,
) -> Header:
    """Write rows (n, d) and the place of each in the dataset."""
    check_finite(path, "rows", rows)
    tensors = {"rows": rows, "index": index.astype(np.int64)}
    return container.write(path, tensors, made.header("features", facts))


def write_similarity(
    path: Path,
    blocks: Callable[[], Iterable[np.ndarray]],
    index: np.ndarray,
    facts: FeatureFacts,
    made: Provenance,
) -> Header:
    """Write an n x n float32 matrix from blocks of rows, never whole in memory."""
    n = len(index)
    entries = [
        Entry("matrix", np.dtype("<f4"), (n, n)),
        Entry("index", np.dtype("<i8"), (n,)),
    ]
    places = [np.ascontiguousarray(index, dtype=np.int64)]
    header = made.header("similarity", facts)
    return container.write_stream(
        path, entries, lambda e: blocks() if e.name == "matrix" else places, header
    )


def read_features(path: Path) -> Features:
    """Read a feature file whole: hash checked, values finite, lengths equal."""
    opened = container.open_kind(path, "features")
    facts = understand(path, opened.header, FeatureFacts, ("client", "round"))
    rows, index = _checked(opened, "rows")
    return Features(Path(path), facts, rows, index, opened.content)


def read_similarity(path: Path) -> Similarity:
    """Read a similarity file whole: hash checked, values finite, square."""
    opened = container.open_kind(path, "similarity")
    facts = understand(path, opened.header, FeatureFacts, ("client", "round"))
    matrix, index = _checked(opened, "matrix")
    if matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"{path}: its matrix is {matrix.shape}, a square was wanted")
    return Similarity(Path(path), facts, matrix, index, opened.content)


def _checked(opened: container.Container, name: str) -> tuple[np.ndarray, np.ndarray]:
    main, index = opened.entry(name), opened.entry("index")
    if main.dtype.kind != "f" or index.dtype != np.int64:
        raise InputError(
            f"{opened.path}: {name} is {main.dtype} and index is {index.dtype}; "
            "floating numbers and int64 were wanted"
        )
    if len(main.shape) != 2 or index.shape != main.shape[:1]:
        raise InputError(
            f"{opened.path}: {name} is {main.shape} and index is {index.shape}; "
            "one index a row was wanted"
        )
    tensors = opened.tensors()
    check_finite(opened.path, name, tensors[name])
    return tensors[name], tensors["index"]
