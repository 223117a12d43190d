"""Groups of images that must stay together, such as the images of a patient.

Files store numbers of groups, no names: names may identify patients.
"""

import csv
import io
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from furlkit.data.sets.labels import LabelSet, number_by_name, utf8_name
from furlkit.errors import InputError, UsageError
from furlkit.files.opening import LONGEST_LIST, read_bytes

FOLDER = "folder"  # --groups folder: images in folders with equal names are a group
L = TypeVar("L", bound=LabelSet)
EXPECTED = "expected a line `file,group` or `group` first, then a line for each image"


def group_names(
    groups: str, name: str, examples: int, paths: Sequence[str] | None
) -> list[str]:
    """The group of every image, by --groups; `paths` are the files of a folder."""
    paths = None if paths is None else [utf8_name(path) for path in paths]
    if groups == FOLDER:
        if paths is None:
            raise UsageError(f"--groups folder: {name} is not a folder of images")
        return [("/" + path).split("/")[-2] for path in paths]
    by_file, column = _read(Path(groups))
    if by_file is None:
        if len(column) != examples:
            raise InputError(
                f"{groups}: has {len(column):,} groups, {name} has {examples:,} images"
            )
        return column
    if paths is None:
        raise InputError(f"{groups}: names files, {name} has none; {EXPECTED}")
    for path in paths:
        if path not in by_file:
            raise InputError(f"{groups}: has no group for {path} of {name}")
    return [by_file[path] for path in paths]


def with_groups(data: L, groups: str | None, paths: Sequence[str] | None) -> L:
    """Dataset with the group number of every image, if --groups is given."""
    if groups is None:
        return data
    names = group_names(groups, data.name, data.examples, paths)
    return replace(data, groups=number_by_name(names)[1])


def recorded_groups(groups: str | None) -> dict[str, str]:
    """Option for a header, without the path of a table."""
    return {} if groups is None else {"groups": FOLDER if groups == FOLDER else "table"}


def one_of_each(data: LabelSet, groups: np.ndarray) -> tuple[LabelSet, np.ndarray]:
    """Dataset with one example per group, and the group number of every image.

    A group has the most frequent label and domain of its images.
    """
    found, codes = np.unique(groups, return_inverse=True)
    columns: dict[str, Any] = {
        name: None if column is None else _most_frequent(codes, column)
        for name, column in (("labels", data.labels), ("domains", data.domains))
    }
    return replace(data, examples=len(found), groups=None, **columns), codes


def whole_groups(
    groups: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Choose whole groups with about `count` images: bool (N).

    Groups are taken in random order while they fit; at least one is taken.
    """
    found, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    order = rng.permutation(len(found))
    fitting = np.cumsum(sizes[order]) <= count
    fitting[:1] = True
    taken = np.zeros(len(found), bool)
    taken[order[fitting]] = True
    return taken[codes]


def _most_frequent(codes: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Most frequent value in each group; the lowest in a tie."""
    pairs, counts = np.unique(np.stack([codes, column]), axis=1, return_counts=True)
    order = np.lexsort((pairs[1], -counts, pairs[0]))
    first = np.unique(pairs[0][order], return_index=True)[1]
    return pairs[1][order][first]


def _read(path: Path) -> tuple[dict[str, str] | None, list[str]]:
    """Groups by file if the table names files, and groups in the order of the lines."""
    try:
        text = read_bytes(path, LONGEST_LIST).decode("utf-8-sig")
        rows = [row for row in csv.reader(io.StringIO(text)) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{path}: cannot be read as CSV; {EXPECTED}") from error
    head = [cell.strip().lower() for cell in rows[0]] if rows else []
    if "group" not in head or any(len(row) != len(head) for row in rows):
        raise InputError(f"{path}: {EXPECTED}")
    column = [row[head.index("group")].strip() for row in rows[1:]]
    if not column or not all(column):
        raise InputError(f"{path}: an image has no group; {EXPECTED}")
    if "file" not in head:
        return None, column
    files = [row[head.index("file")].strip() for row in rows[1:]]
    return dict(zip(files, column, strict=True)), column
