"""Similarity files: how similar a model finds every two of some images.

Whole, as n x n cosines, or the largest of each row only: a row then has a list of
columns, and the others were not sent. int8 stores cosines in steps of 1/127.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
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

    `matrix` is (n, n), as it is stored. With `columns` (n, k) it is (n, k) in float32:
    row i has its value for column columns[i, j] at j.
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
    """Open a similarity file, checked: its hash, its shape, and that it has cosines.

    The largest of each row are read as float32. A whole matrix stays on disk, in the type
    it is stored in: `cosines` gives the numbers of any block of it.
    """
    opened, facts = open_table(path, "similarity", "matrix")
    return similarity_of(opened, facts)


def similarity_of(
    opened: Container, facts: FeatureFacts, by: str = "check", private: bool = False
) -> Similarity:
    """The cosines of a file that was opened by `open_table`; `by` is the hash to compare.

    With `private` a whole matrix is copied to a file that nobody else can change.
    """
    path, (n, k) = opened.path, opened.entry("matrix").shape
    rounding = ROUNDING.get(opened.entry("matrix").dtype.name, 0)
    if "columns" in opened:
        opened.expect("columns", "int32", n, k)
        tensors = opened.verified_tensors(by, private)
        matrix, columns = cosines(tensors["matrix"]), tensors["columns"]
        check_columns(path, "columns", columns, n)
        _check_largest(path, matrix, columns, rounding)
        index = tensors["index"]
        return Similarity(path, facts, opened.content, matrix, index, columns)
    if n != k:
        raise InputError(f"{path}: its matrix is {(n, k)}; expected a square")
    index, mapped = _private_copy(opened, by) if private else _on_disk(opened, by)
    _check_whole(path, mapped, n, rounding)
    return Similarity(path, facts, opened.content, mapped(), index)


Mapped = Callable[[], np.ndarray]


def _on_disk(opened: Container, by: str) -> tuple[np.ndarray, Mapped]:
    """The index, and the matrix as a map of the file."""
    for _ in opened.verified_pieces(by):
        pass
    return opened.read(opened.entry("index")), lambda: opened.memmap("matrix")


def _private_copy(opened: Container, by: str) -> tuple[np.ndarray, Mapped]:
    """The index, and the matrix as a map of a copy without a name."""
    copy = TemporaryFile()  # noqa: SIM115 - it lives as long as its maps
    index, entry = bytearray(), opened.entry("matrix")
    for each, piece in opened.verified_pieces(by, remember=True):
        if each.name == "index":
            index += piece.tobytes()
        elif each.name == "matrix":
            copy.write(piece.data)
    copy.flush()

    def mapped() -> np.ndarray:
        if not entry.size:
            return np.empty(entry.shape, entry.dtype)
        return np.memmap(copy, entry.dtype, "r", 0, entry.shape)

    return np.frombuffer(bytes(index), np.int64), mapped


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


Part = Callable[[slice, slice], np.ndarray]


def _check_whole(path: Path, mapped: Mapped, n: int, rounding: float) -> None:
    """In blocks, each from a map of its own: memory is a few blocks, whatever n is."""

    def part(rows: slice, columns: slice) -> np.ndarray:
        return cosines(mapped()[rows, columns])

    _check_range(path, part, (n, n), None, rounding)
    own = np.concatenate([np.diagonal(part(s, s)).copy() for s in _slices(n)])
    _check_own(path, own, rounding)
    _check_symmetry(path, part, n, rounding)


def _check_largest(
    path: Path, matrix: np.ndarray, columns: np.ndarray, rounding: float
) -> None:
    def part(rows: slice, places: slice) -> np.ndarray:
        return matrix[rows, places]

    _check_range(path, part, matrix.shape, columns, rounding)
    there = columns == np.arange(len(columns))[:, None]
    own = np.where(there, matrix, -np.inf).max(axis=1, initial=-np.inf)
    _check_own(path, own, rounding)
    _check_sides(path, matrix, columns, rounding)


def _check_sides(
    path: Path, matrix: np.ndarray, columns: np.ndarray, rounding: float
) -> None:
    """A cosine that was sent for i and j is that for j and i, or is not one of j's largest.

    Every row has its k largest, so j may lack i only if it has k others as large. In
    blocks of rows, beside a copy that is in the order of the columns.
    """
    by_column, values = _by_column(path, matrix, columns)
    least = matrix.min(axis=1, initial=np.inf)
    for rows in _slices(len(matrix)):
        others = columns[rows]  # (b, k): the pairs (i, j), and now j's side of them.
        i = np.arange(rows.start, rows.stop)[:, None]
        place, there = _found(by_column, others, i)
        theirs = np.where(there, values[others, place], least[others])
        apart = matrix[rows] - theirs
        wrong = np.where(there, np.abs(apart), apart) > SUMMING + 2 * rounding
        if wrong.any():
            cell = tuple(np.argwhere(wrong)[0])
            row, other = rows.start + int(cell[0]), int(others[cell])
            found = f"{theirs[cell]:.6g}" if there[cell] else "only smaller ones, none"
            raise InputError(
                f"{path}: row {row} has {matrix[rows][cell]:.6g} for row {other}, but row "
                f"{other} has {found} for row {row}; {RECREATE}"
            )


def _by_column(
    path: Path, matrix: np.ndarray, columns: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Columns and values with each row in the order of its columns, none of them twice."""
    ordered, values = np.empty_like(columns), np.empty_like(matrix)
    for rows in _slices(len(columns)):
        order = columns[rows].argsort(axis=1)
        ordered[rows] = np.take_along_axis(columns[rows], order, axis=1)
        values[rows] = np.take_along_axis(matrix[rows], order, axis=1)
        twice = np.argwhere(ordered[rows, 1:] == ordered[rows, :-1])
        if len(twice):
            row, place = rows.start + int(twice[0][0]), int(twice[0][1])
            raise InputError(
                f"{path}: row {row} has row {ordered[row, place]} twice; {RECREATE}"
            )
    return ordered, values


def _found(
    ordered: np.ndarray, rows: np.ndarray, column: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Where each of these rows has a column, and whether it has: a search by halves."""
    k = ordered.shape[1]
    low, high = np.zeros(rows.shape, np.int32), np.full(rows.shape, k, np.int32)
    for _ in range(k.bit_length()):
        middle = (low + high) // 2
        below = ordered[rows, np.minimum(middle, k - 1)] < column
        low, high = np.where(below, middle + 1, low), np.where(below, high, middle)
    place = np.minimum(low, k - 1)
    return place, ordered[rows, place] == column


def _slices(length: int, start: int = 0) -> Iterator[slice]:
    for first in range(start, length, BLOCK):
        yield slice(first, min(first + BLOCK, length))


def _first(
    shape: tuple[int, ...], wrong: Part, upper: bool = False
) -> tuple[int, int] | None:
    """The first cell, row by row, that is wrong; `upper` skips blocks below the diagonal."""
    for rows in _slices(shape[0]):
        cells = []
        for columns in _slices(shape[1], rows.start if upper else 0):
            found = wrong(rows, columns)
            if found.any():
                i, j = np.argwhere(found)[0]
                cells.append((int(i) + rows.start, int(j) + columns.start))
        if cells:
            return min(cells)
    return None


def _at(part: Part, i: int, j: int) -> float:
    return float(part(slice(i, i + 1), slice(j, j + 1))[0, 0])


def _check_range(
    path: Path,
    part: Part,
    shape: tuple[int, ...],
    columns: np.ndarray | None,
    rounding: float,
) -> None:
    """From -1 to 1, which NaN is not."""
    most = 1 + SUMMING + rounding
    if found := _first(shape, lambda r, c: ~(np.abs(part(r, c)) <= most)):
        i, j = found
        other = j if columns is None else columns[i, j]
        raise InputError(
            f"{path}: row {i} has {_at(part, i, j):.6g} for row {other}; expected a "
            f"cosine, from -1 to 1; {RECREATE}"
        )


def _check_own(path: Path, own: np.ndarray, rounding: float) -> None:
    """An image is similar to itself: otherwise a row may have no target at all."""
    wrong = np.flatnonzero(np.abs(own - 1) > SUMMING + rounding)
    if len(wrong):
        value = own[wrong[0]]
        found = f"{value:.6g}" if np.isfinite(value) else "nothing"
        others = f" ({len(wrong):,} such rows)" if len(wrong) > 1 else ""
        raise InputError(
            f"{path}: row {wrong[0]} has {found} for its own image; expected 1"
            f"{others}; {RECREATE}, from a model that has not collapsed"
        )


def _check_symmetry(path: Path, part: Part, n: int, rounding: float) -> None:
    """The cosine of i and j is that of j and i; both may have been rounded."""

    def wrong(rows: slice, columns: slice) -> np.ndarray:
        difference = part(rows, columns) - part(columns, rows).T
        return np.abs(difference, out=difference) > SUMMING + 2 * rounding

    if found := _first((n, n), wrong, upper=True):
        i, j = found
        raise InputError(
            f"{path}: row {i} has {_at(part, i, j):.6g} for row {j}, but row {j} has "
            f"{_at(part, j, i):.6g} for row {i}; {RECREATE}"
        )
