"""Feature files: a model's outputs for a set of images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.header import Header
from furlkit.files.container.read import Container, open_kind
from furlkit.files.container.write import write
from furlkit.files.encoding import decoded, encoded
from furlkit.files.facts import Provenance, check_fingerprint, understand


@dataclass(frozen=True)
class FeatureFacts:
    """Which layer (h or z), of which images, by which client's model of which round.

    `parent` is the content hash of the global model the client started from, and
    `owners` gives the origin of a dictionary's rows, in their order: [client, rows].
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

    Rows that a client shares, and a dictionary made of them, are only numbered: only
    the client knows which images they belong to.
    """

    path: Path
    facts: FeatureFacts
    rows: np.ndarray
    index: np.ndarray
    content: str


def write_features(
    path: Path,
    rows: np.ndarray,
    index: np.ndarray,
    facts: FeatureFacts,
    provenance: Provenance,
    encoding: str = "float32",
) -> Header:
    """Write rows (n, d) and the place of each in the dataset."""
    check_finite(path, "rows", rows)
    tensors = {**encoded("rows", rows, encoding), "index": index.astype(np.int64)}
    check_finite(path, f"rows as {encoding}", tensors["rows"])
    return write(path, tensors, provenance.header("features", facts))


def read_features(path: Path) -> Features:
    """Read a feature file whole, rows as float32: checked, finite, lengths equal."""
    opened = open_kind(path, "features")
    facts = understand_features(path, opened.header)
    check_index(opened, "rows")
    tensors = opened.tensors()
    rows = decoded(Path(path), tensors, "rows")
    return Features(Path(path), facts, rows, tensors["index"], opened.content)


def understand_features(path: Path, header: Header) -> FeatureFacts:
    """The facts of rows or similarities; rows that are shared name no dataset."""
    facts = understand(path, header, FeatureFacts, ("client", "round"))
    if facts.dataset:
        check_fingerprint(path, facts.dataset)
    return facts


def check_index(opened: Container, name: str) -> None:
    """There must be an index: int64, one for each row of a table."""
    main, index = opened.entry(name), opened.entry("index")
    numbers = main.dtype.kind == "f" or main.dtype == np.int8
    if index.dtype != np.int64 or not numbers:
        raise InputError(
            f"{opened.path}: {name} is {main.dtype} and index is {index.dtype}; "
            "expected floating-point numbers or int8, and int64"
        )
    if len(main.shape) != 2 or index.shape != main.shape[:1]:
        raise InputError(
            f"{opened.path}: {name} is {main.shape} and index is {index.shape}; "
            "expected one index for each row"
        )
