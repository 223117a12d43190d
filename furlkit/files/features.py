"""Feature files: a model's outputs for a set of images.

Rows may be stored in fewer bytes: float16, or int8 with a scale for each row.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.clients import ClientId
from furlkit.files.container.header import Header
from furlkit.files.container.read import FLOATS, Container, Readable, Tensors
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, check_fingerprint, open_facts

LARGEST = 127
# Layer of rows with probabilities of classes; the remaining layers are h and z.
PROBABILITIES = "probabilities"
NOISE = {"local-train": "row-noise", "embed": "noise"}  # Recorded options by command.


@dataclass(frozen=True)
class FeatureFacts:
    """Layer (h, z or probabilities), images, client and round of a feature file.

    `parent`: content hash of the global model at the start of the client's training.
    `owners`: origin of a dictionary's rows, in order: [client, rows]. `made_for`: the
    client excluded from the dictionary by the server. `share_rows`: how clients
    computed shared rows (local-train --share-rows), unless FedCA's averaged features.
    `personal`: "stylised" (FedStyle Eq. 4) or "style" (h_s) if h is not the content
    model's output. `run`: name of the run, inherited from the model.
    """

    layer: str
    dataset: dict[str, Any]
    part: str
    client: ClientId | None = None
    round: int | None = None
    examples: int | None = None
    parent: str | None = None
    owners: list[list[ClientId]] | None = None
    share_rows: str | None = None
    personal: str | None = None
    made_for: ClientId | None = None
    run: str | None = None


@dataclass(frozen=True)
class Features(Record[FeatureFacts]):
    """Rows of features; `index` gives the position of each row in the dataset.

    Shared rows, and the rows of a dictionary, are only numbered: only the client knows
    the images of the rows. `counts` are the numbers of images per row, for example of a
    centroid; None for a single image per row. `partition`: content hash of the clients'
    partition; None for a site's rows.
    """

    rows: np.ndarray
    index: np.ndarray
    counts: np.ndarray | None = None
    partition: str | None = None

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes that uploads of a round share."""
        is_class = self.facts.layer == PROBABILITIES
        name = "number of classes" if is_class else "length of a row"
        return {name: self.rows.shape[1]}


def write_features(
    path: Path,
    rows: np.ndarray,
    index: np.ndarray,
    facts: FeatureFacts,
    provenance: Provenance,
    encoding: str = "float32",
    counts: np.ndarray | None = None,
) -> str:
    """Write rows (n, d), the place of each in the dataset, and `counts` if given."""
    check_finite(path, "rows", rows)
    tensors = {**encoded("rows", rows, encoding), "index": index.astype(np.int64)}
    if counts is not None:
        tensors["counts"] = counts.astype(np.int64)
    check_finite(path, f"rows as {encoding}", tensors["rows"])
    return write(path, tensors, provenance.header("features", facts))


def noise_of(header: Header) -> float:
    """Standard deviation of the noise on unit rows; 0 for rows without noise."""
    given = header.options.get(NOISE.get(header.stage, ""))
    shared = header.kind in ("features", "similarity")
    return float(given) if shared and isinstance(given, int | float) else 0.0


def check_probabilities(found: Features) -> None:
    """Check that every row is a probability vector, up to the encoding's precision."""
    rows, path = found.rows, found.path
    if found.facts.layer != PROBABILITIES:
        raise InputError(
            f"{path}: holds {found.facts.layer}, expected probabilities; create it with "
            f"embed --share {PROBABILITIES}"
        )
    # An int8 number is off by half of the row's largest over 127.
    slack = 1e-3 + rows.shape[1] * rows.max(axis=1, initial=0) / (2 * LARGEST)
    wrong = (rows.min(axis=1, initial=0) < 0) | ~(np.abs(rows.sum(axis=1) - 1) <= slack)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{path}: row {row} sums to {rows[row].sum():.4g}, the smallest number is "
            f"{rows[row].min(initial=0):.4g}; expected probabilities; re-create it"
        )


def read_features(file: Readable) -> Features:
    """Read a whole feature file, rows as float32: checked, finite, lengths equal."""
    opened, facts = open_table(file, "features", "rows")
    return features_of(opened, facts, opened.tensors())


def open_upload(path: Path, kind: str) -> tuple[Container, FeatureFacts]:
    """Open a client's rows, by header alone."""
    return open_table(path, kind, "rows")


def read_upload(
    opened: Container, facts: FeatureFacts, by: str, remember: bool
) -> Features:
    """Read the rows of an opened file; `by` is the hash to compare."""
    return features_of(opened, facts, opened.verified_tensors(by, remember))


def write_result(
    path: Path,
    _kind: str,
    tensors: Tensors,
    facts: FeatureFacts,
    provenance: Provenance,
) -> str:
    """Write the rows of several clients, with `index` and perhaps `counts`."""
    about = (tensors["index"], facts, provenance)
    return write_features(path, tensors["rows"], *about, counts=tensors.get("counts"))


def features_of(opened: Container, facts: FeatureFacts, tensors: Tensors) -> Features:
    """Decode the rows of a file opened by `open_table` from the file's tensors."""
    rows = decoded(opened.path, tensors, "rows")
    index, counts = tensors["index"], tensors.get("counts")
    partition = opened.header.inputs.get("partition")
    return Features(opened.path, facts, opened.content, rows, index, counts, partition)


def open_table(file: Readable, kind: str, name: str) -> tuple[Container, FeatureFacts]:
    """Open rows or similarities: a table called `name`, with an index for each row."""
    opened, facts = open_facts(file, kind, FeatureFacts)
    if facts.dataset:  # Shared rows name no dataset.
        check_fingerprint(opened.path, facts.dataset)
    n, _ = opened.expect(name, f"{FLOATS} int8", "n", "d").shape
    opened.expect("index", "int64", n)
    if "counts" in opened:
        opened.expect("counts", "int64", n)
    return opened, facts


def encoded(name: str, rows: np.ndarray, encoding: str) -> dict[str, np.ndarray]:
    """Encode rows (n, d) as tensors: `name`, and for int8 the scale of each row.

    int8 stores round(row / scale) with scale = max |row| / 127; the error of a value is
    at most half a scale.
    """
    if encoding == "int8":
        largest = np.abs(rows).max(axis=1, initial=0)
        tiny = np.finfo(np.float32).tiny * LARGEST
        scale = (np.where(largest > tiny, largest, 1) / LARGEST).astype(np.float32)
        whole = np.rint(rows / scale[:, None]).clip(-LARGEST, LARGEST)
        return {name: whole.astype(np.int8), _scale(name): scale}
    with np.errstate(over="ignore"):
        return {name: rows.astype(encoding)}


def decoded(path: Path, tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    """Return the rows called `name` as finite float32, from any encoding."""
    rows = tensors[name]
    if rows.dtype.kind == "f":
        check_finite(path, name, rows)
        return rows.astype(np.float32, copy=False)
    scale = tensors.get(_scale(name))
    if rows.dtype != np.int8 or scale is None or scale.shape != rows.shape[:1]:
        raise InputError(
            f"{path}: {name} is {rows.dtype} {rows.shape}; expected floating-point "
            "numbers, or int8 with a scale for each row"
        )
    check_finite(path, _scale(name), scale)
    return rows.astype(np.float32) * scale.astype(np.float32)[:, None]


def _scale(name: str) -> str:
    return f"{name}_scale"
