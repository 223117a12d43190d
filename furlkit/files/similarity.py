"""Similarity files: how similar a model finds every two of some images.

Whole, as n x n cosines, or the largest of each row only: a row then has a list of
columns, and the others were not sent. int8 stores cosines in steps of 1/127.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.read import Container
from furlkit.files.container.write import Blocks, write
from furlkit.files.facts import Provenance, Record
from furlkit.files.features import FeatureFacts, open_table

STEP = 127
# How far a stored cosine may be from the true one: sums of float32, and its type.
SUMMING, ROUNDING = 1e-3, {"float16": 2**-11, "int8": 0.5 / STEP}
BLOCK = 1024
RECREATE = "re-create it with embed --similarity"
# A row that is shorter has no direction, and so no cosines.
SHORTEST = 1e-12


@dataclass(frozen=True)
class Similarity(Record[FeatureFacts]):
    """Cosines; `index` names the image of row and column i.

    `matrix` is (n, n). With `columns` (n, k) it is (n, k): row i has its value for
    column columns[i, j] at j.
    """

    matrix: np.ndarray
    index: np.ndarray
    columns: np.ndarray | None = None


def write_similarity(
    path: Path,
    blocks: Iterable[np.ndarray],
    index: np.ndarray,
    facts: Any,
    provenance: Provenance,
    encoding: str = "float32",
    columns: np.ndarray | None = None,
    kind: str = "similarity",
) -> str:
    """Write a matrix from blocks of rows, never whole in memory.

    It is (n, n); or (n, k) with the `columns` (n, k) that its values belong to. A file of
    the kind "ensemble" may hold one too.
    """
    shape = (len(index), len(index)) if columns is None else columns.shape
    stored = (_stored(path, block, encoding) for block in blocks)
    matrix = Blocks(np.dtype(encoding), shape, stored)
    more = {"index": index.astype(np.int64)}
    if columns is not None:
        more["columns"] = columns.astype(np.int32)
    header = provenance.header(kind, facts)
    return write(path, {"matrix": matrix, **more}, header)


def kept_of(percent: float, n: int) -> int:
    """How many of a row's n cosines `percent` percent are, one at least."""
    return min(n, max(1, math.ceil(percent * n / 100)))


def read_similarity(path: Path) -> Similarity:
    """Read a similarity file whole, as float32: hash checked, in shape, cosines."""
    opened, facts = open_table(path, "similarity", "matrix")
    n, k = opened.entry("matrix").shape
    if "columns" in opened:
        opened.expect("columns", "int32", n, k)
    elif n != k:
        raise InputError(f"{path}: its matrix is {(n, k)}; expected a square")
    tensors = opened.tensors()
    matrix, columns = tensors["matrix"], tensors.get("columns")
    rounding, matrix = ROUNDING.get(matrix.dtype.name, 0), cosines(matrix)
    if columns is not None:
        check_columns(path, "columns", columns, n)
    _check_range(path, matrix, columns, rounding)
    _check_own(path, matrix, columns, rounding)
    if columns is None:
        _check_symmetry(path, matrix, rounding)
    index = tensors["index"]
    return Similarity(opened.path, facts, opened.content, matrix, index, columns)


def mapped(similarity: Similarity) -> Similarity:
    """The same with a matrix that stays on disk, in the type it is stored in."""
    matrix = Container(similarity.path).memmap("matrix")
    return replace(similarity, matrix=matrix)


def cosines(block: np.ndarray) -> np.ndarray:
    """Stored values, of whatever type, as float32."""
    numbers = block.astype(np.float32, copy=False)
    return numbers / STEP if block.dtype == np.int8 else numbers


def _stored(path: Path, block: np.ndarray, encoding: str) -> np.ndarray:
    check_finite(path, "matrix", block)
    return np.rint(block.clip(-1, 1) * STEP) if encoding == "int8" else block


def check_columns(path: Path, name: str, columns: np.ndarray, n: int) -> None:
    """Columns must be among those of a matrix of n images."""
    if columns.size and not 0 <= columns.min() <= columns.max() < n:
        raise InputError(
            f"{path}: {name} go from {columns.min()} to {columns.max()}, it has {n} "
            "images; re-create it"
        )


def _check_range(
    path: Path, matrix: np.ndarray, columns: np.ndarray | None, rounding: float
) -> None:
    """From -1 to 1, which NaN is not."""
    for start in range(0, len(matrix), BLOCK):
        block = matrix[start : start + BLOCK]
        wrong = ~(np.abs(block) <= 1 + SUMMING + rounding)
        if wrong.any():
            i, j = np.argwhere(wrong)[0] + (start, 0)
            other = j if columns is None else columns[i, j]
            raise InputError(
                f"{path}: row {i} has {matrix[i, j]:.6g} for row {other}; expected a "
                f"cosine, from -1 to 1; {RECREATE}"
            )


def _check_own(
    path: Path, matrix: np.ndarray, columns: np.ndarray | None, rounding: float
) -> None:
    """An image is similar to itself: otherwise a row may have no target at all."""
    if columns is None:
        own = np.diagonal(matrix)
    else:
        there = columns == np.arange(len(columns))[:, None]
        own = np.where(there, matrix, -np.inf).max(axis=1, initial=-np.inf)
    wrong = np.flatnonzero(np.abs(own - 1) > SUMMING + rounding)
    if len(wrong):
        value = own[wrong[0]]
        found = f"{value:.6g}" if np.isfinite(value) else "nothing"
        others = f" ({len(wrong):,} such rows)" if len(wrong) > 1 else ""
        raise InputError(
            f"{path}: row {wrong[0]} has {found} for its own image; expected 1"
            f"{others}; {RECREATE}, from a model that has not collapsed"
        )


def _check_symmetry(path: Path, matrix: np.ndarray, rounding: float) -> None:
    """The cosine of i and j is that of j and i; both may have been rounded."""
    for start in range(0, len(matrix), BLOCK):
        end = start + BLOCK
        difference = matrix[start:end, start:] - matrix[start:, start:end].T
        wrong = np.abs(difference, out=difference) > SUMMING + 2 * rounding
        if wrong.any():
            i, j = np.argwhere(wrong)[0] + start
            raise InputError(
                f"{path}: row {i} has {matrix[i, j]:.6g} for row {j}, but row {j} has "
                f"{matrix[j, i]:.6g} for row {i}; {RECREATE}"
            )
