"""Similarity files: cosines of all pairs of images according to a model.

Either a whole n x n matrix, or only the largest cosines of each row, with a list of
columns. int8 stores cosines in steps of 1/127.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.read import Container, Readable
from furlkit.files.container.write import Blocks, write
from furlkit.files.facts import Provenance, Record
from furlkit.files.features import PROBABILITIES, FeatureFacts, Features, open_table
from furlkit.files.gram import find_impossible, known_together, sampled_places

STEP = 127
# Tolerance of a stored cosine: float32 sums, and rounding to the type.
SUMMING, ROUNDING = 1e-3, {"float16": 2**-11, "int8": 0.5 / STEP}
BLOCK = 1024
RECREATE = "re-create it with embed --similarity"
# A shorter row has no direction, and therefore no cosines.
SHORTEST = 1e-12
# Images, and neighbours of each, whose largest cosines are compared with each other.
CENTRES, NEIGHBOURS = 64, 64


@dataclass(frozen=True)
class Similarity(Record[FeatureFacts]):
    """Cosines; `index` names the image of row and column i.

    `matrix` is (n, n), in the stored type. With `columns` (n, k), `matrix` is (n, k) in
    float32: matrix[i, j] belongs to column columns[i, j].
    """

    matrix: np.ndarray
    index: np.ndarray
    columns: np.ndarray | None = None

    def cosine_rows(self, rows: slice) -> np.ndarray:
        """Some rows (.., n) in float32; -inf for a cosine that was not stored."""
        if self.columns is None:
            return cosines(self.matrix[rows])
        shape, columns = (len(self.matrix[rows]), len(self.matrix)), self.columns[rows]
        block = np.full(shape, -np.inf, np.float32)
        np.put_along_axis(block, columns.astype(np.int64), self.matrix[rows], axis=1)
        return block


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
    """Write a matrix from blocks of rows, without the whole matrix in memory.

    The matrix is (n, n), or (n, k) with `columns` (n, k). A file of the kind "ensemble"
    may contain a matrix too.
    """
    shape = (len(index), len(index)) if columns is None else columns.shape

    def stored() -> Iterator[np.ndarray]:
        for block in blocks:
            check_finite(path, "matrix", block)
            yield np.rint(block.clip(-1, 1) * STEP) if encoding == "int8" else block

    matrix = Blocks(np.dtype(encoding), shape, stored())
    more = {"index": index.astype(np.int64)}
    if columns is not None:
        more["columns"] = columns.astype(np.int32)
    header = provenance.header(kind, facts)
    return write(path, {"matrix": matrix, **more}, header)


def kept_of(percent: float, n: int) -> int:
    """Number of cosines in `percent` percent of a row of n, at least 1."""
    return min(n, max(1, math.ceil(percent * n / 100)))


def read_similarity(file: Readable) -> Similarity:
    """Read and check a similarity file; see `similarity_of`."""
    opened, facts = open_table(file, "similarity", "matrix")
    # The map of a file of others must keep the bytes that were compared.
    return similarity_of(opened, facts, opened.by, private=opened.by == "content")


def open_upload(path: Path, kind: str) -> tuple[Container, FeatureFacts]:
    """Open a client's cosines, by header alone."""
    return open_table(path, kind, "matrix")


def read_upload(
    opened: Container, facts: FeatureFacts, by: str, remember: bool
) -> Similarity:
    """Read the cosines of an opened file; copy a file that may change."""
    return similarity_of(opened, facts, by, private=remember)


def write_result(
    path: Path,
    kind: str,
    tensors: Mapping[str, Any],
    facts: FeatureFacts,
    provenance: Provenance,
) -> str:
    """Write cosines: blocks of rows in `matrix`, and `index`."""
    about = (tensors["index"], facts, provenance)
    return write_similarity(path, tensors["matrix"], *about, kind=kind)


def similarity_of(
    opened: Container, facts: FeatureFacts, by: str = "check", private: bool = False
) -> Similarity:
    """Read the cosines of a file opened by `open_table`; `by` is the hash to compare.

    The largest cosines of each row are read as float32. A whole matrix stays on disk,
    in the stored type: `cosines` decodes any block. With `private` a whole matrix is
    copied to a file that no other process can change.
    """
    path, (n, k) = opened.path, opened.entry("matrix").shape
    rounding = ROUNDING.get(opened.entry("matrix").dtype.name, 0)
    if "columns" in opened:
        opened.expect("columns", "int32", n, k)
        tensors = opened.verified_tensors(by, private)
        matrix, columns = cosines(tensors["matrix"]), tensors["columns"]
        check_columns(path, "columns", columns, n)
        _check_largest(opened, matrix, columns, rounding)
        index = tensors["index"]
        return Similarity(path, facts, opened.content, matrix, index, columns)
    if n != k:
        raise InputError(f"{path}: its matrix is {(n, k)}; expected a square")
    index, mapped = _private_copy(opened, by) if private else _on_disk(opened, by)
    _check_whole(opened, mapped, n, rounding)
    return Similarity(path, facts, opened.content, mapped(), index)


Mapped = Callable[[], np.ndarray]


def _on_disk(opened: Container, by: str) -> tuple[np.ndarray, Mapped]:
    """Return the index, and the matrix mapped from the file."""
    for _ in opened.verified_pieces(by):
        pass
    return opened.read(opened.entry("index")), lambda: opened.memmap("matrix")


def _private_copy(opened: Container, by: str) -> tuple[np.ndarray, Mapped]:
    """Return the index, and the matrix mapped from a copy without a name."""
    copy = TemporaryFile()  # noqa: SIM115 - must live as long as the maps
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


def check_cosines(upload: Features | Similarity) -> None:
    """Check that every two images of a client have a cosine."""
    if isinstance(upload, Features):
        check_directions(upload)
    elif upload.columns is not None:
        raise InputError(
            f"{upload.path}: holds only the largest cosines of each image; embed all "
            "images' cosines, without --top"
        )


def check_directions(client: Features) -> None:
    """Check that rows of h or z have cosines: refuse probabilities and zeros."""
    if client.facts.layer == PROBABILITIES:
        raise InputError(
            f"{client.path}: holds probabilities of classes; combine probabilities with "
            f"aggregate --rule {PROBABILITIES}, or embed h or z"
        )
    length = np.linalg.norm(client.rows, axis=1)
    zeros = np.flatnonzero(length < SHORTEST)
    if len(zeros):
        raise InputError(
            f"{client.path}: has zeros in {len(zeros):,} of {len(length):,} rows, row "
            f"{zeros[0]} first, which have no cosine; the model of client "
            f"{client.facts.client} is dead or has collapsed, train it again with a lower "
            "--lr, or leave it out"
        )


def cosines(block: np.ndarray) -> np.ndarray:
    """Decode stored values of any type to float32."""
    numbers = block.astype(np.float32, copy=False)
    return numbers / STEP if block.dtype == np.int8 else numbers


def check_columns(path: Path, name: str, columns: np.ndarray, n: int) -> None:
    """Check that columns are from 0 to n - 1."""
    if columns.size and not 0 <= columns.min() <= columns.max() < n:
        raise InputError(
            f"{path}: {name} go from {columns.min()} to {columns.max()} of {n} "
            "images; re-create it"
        )


Part = Callable[[slice, slice], np.ndarray]
Shape = tuple[int, ...]
Cell = tuple[int, int]
Pair = tuple[np.ndarray, np.ndarray]


def _check_whole(opened: Container, mapped: Mapped, n: int, rounding: float) -> None:
    """Check in blocks, each from a new map: memory is a few blocks for any n."""
    path = opened.path

    def part(rows: slice, columns: slice) -> np.ndarray:
        return cosines(mapped()[rows, columns])

    _check_range(path, part, (n, n), None, rounding)
    own = np.concatenate([np.diagonal(part(s, s)).copy() for s in _slices(n)])
    _check_own(path, own, rounding)
    _check_symmetry(path, part, n, rounding)
    places = sampled_places(n, opened.content)
    sample = cosines(mapped()[np.ix_(places, places)])
    _check_possible(path, sample, places, rounding)


def _check_largest(
    opened: Container, matrix: np.ndarray, columns: np.ndarray, rounding: float
) -> None:
    path = opened.path
    _check_range(path, lambda r, c: matrix[r, c], matrix.shape, columns, rounding)
    there = columns == np.arange(len(columns))[:, None]
    own = np.where(there, matrix, -np.inf).max(axis=1, initial=-np.inf)
    _check_own(path, own, rounding)
    ordered = _by_column(path, matrix, columns)
    _check_sides(path, matrix, columns, ordered, rounding)
    some = sampled_places(matrix.shape[1], opened.content)[:NEIGHBOURS]
    for centre in sampled_places(len(matrix), opened.content)[:CENTRES]:
        near = columns[centre, some].astype(np.int64)
        sample, known = _cosines_between(ordered, near)
        members = known_together(known)
        sample = sample[np.ix_(members, members)]
        _check_possible(path, sample, near[members], rounding)


def _cosines_between(
    ordered: tuple[np.ndarray, np.ndarray], images: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return cosines of images among the largest of either row, and which are known."""
    by_column, values = ordered
    rows, others = np.broadcast_arrays(images[:, None], images[None])
    place, there = _found(by_column, rows, others)
    found = values[rows, place]
    return np.where(there, found, found.T), there | there.T


def _check_possible(
    path: Path, sample: np.ndarray, places: np.ndarray, rounding: float
) -> None:
    """Check that the sampled cosines are cosines of vectors."""
    if odd := find_impossible(sample, SUMMING + rounding):
        rows = sorted(places[odd.places].tolist())
        more = f" and {len(rows) - 4} more" if len(rows) > 4 else ""
        raise InputError(
            f"{path}: no vectors have the cosines between the rows "
            f"{', '.join(map(str, rows[:4]))}{more}: an eigenvalue is "
            f"{odd.eigenvalue:.3g}, expected at least {odd.limit:.2g}; {RECREATE}"
        )


def _check_sides(
    path: Path,
    matrix: np.ndarray,
    columns: np.ndarray,
    ordered: tuple[np.ndarray, np.ndarray],
    rounding: float,
) -> None:
    """Check that rows i and j agree, unless (i, j) is not among j's largest cosines.

    Every row has the k largest cosines: row j may lack i only if k others are as large.
    Works in blocks of rows; `ordered`: columns and cosines in the order of the columns.
    """
    by_column, values = ordered
    least = matrix.min(axis=1, initial=np.inf)
    for rows in _slices(len(matrix)):
        others = columns[rows]  # (b, k): the pairs (i, j); now j's side.
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


def _by_column(path: Path, matrix: np.ndarray, columns: np.ndarray) -> Pair:
    """Sort each row by column; raise if a row has a column twice."""
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


def _found(ordered: np.ndarray, rows: np.ndarray, column: np.ndarray) -> Pair:
    """Bisect for a column in each of these rows; return the place and a match flag."""
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


def _first(shape: Shape, wrong: Part, upper: bool = False) -> Cell | None:
    """Return the first wrong cell; `upper` skips blocks below the diagonal."""
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
    path: Path, part: Part, shape: Shape, columns: np.ndarray | None, rounding: float
) -> None:
    """Check that values are between -1 and 1; NaN fails."""
    most = 1 + SUMMING + rounding
    if found := _first(shape, lambda r, c: ~(np.abs(part(r, c)) <= most)):
        i, j = found
        other = j if columns is None else columns[i, j]
        raise InputError(
            f"{path}: row {i} has {_at(part, i, j):.6g} for row {other}; expected a "
            f"cosine, from -1 to 1; {RECREATE}"
        )


def _check_own(path: Path, own: np.ndarray, rounding: float) -> None:
    """Check that an image has cosine 1 with itself: every row needs a target."""
    wrong = np.flatnonzero(np.abs(own - 1) > SUMMING + rounding)
    if len(wrong):
        value = own[wrong[0]]
        found = f"{value:.6g}" if np.isfinite(value) else "nothing"
        others = f" ({len(wrong):,} such rows)" if len(wrong) > 1 else ""
        raise InputError(
            f"{path}: row {wrong[0]} has {found} for the image itself; expected 1"
            f"{others}; {RECREATE}, from a model that has not collapsed"
        )


def _check_symmetry(path: Path, part: Part, n: int, rounding: float) -> None:
    """Check that the cosine of (i, j) equals the cosine of (j, i), up to rounding."""

    def wrong(rows: slice, columns: slice) -> np.ndarray:
        difference = part(rows, columns) - part(columns, rows).T
        return np.abs(difference, out=difference) > SUMMING + 2 * rounding

    if found := _first((n, n), wrong, upper=True):
        i, j = found
        raise InputError(
            f"{path}: row {i} has {_at(part, i, j):.6g} for row {j}, but row {j} has "
            f"{_at(part, j, i):.6g} for row {i}; {RECREATE}"
        )
