"""One dataset from several shards: images in order, labels and class names."""

import os
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from furlkit import console
from furlkit.data.sets.folder import SPLITS, FolderIndex
from furlkit.data.sets.labels import (
    LabelSet,
    check_labels,
    default_names,
    number_by_name,
)
from furlkit.data.sets.parquet import read_table
from furlkit.data.sets.shard import TAR, Shard
from furlkit.data.sets.tar import read_tar
from furlkit.errors import InputError

OPEN = 2  # Shards at a time: threads read images nearly in order.


def index_shards(name: str, shards: Sequence[Path], labelled: bool) -> FolderIndex:
    """List the images of shards like the files of a folder, without reading images."""
    _check_splits(name, shards)
    opened = [
        (read_tar if path.name.endswith(TAR) else read_table)(path, labelled)
        for path in shards
    ]
    if skipped := sum(shard.skipped for shard in opened):
        console.info(f"{name}: skipped {skipped:,} samples without an image")
    root = shards[0] if len(shards) == 1 else Path(os.path.commonpath(shards))
    paths = tuple(
        str((shard.path / each).relative_to(root))
        for shard in opened
        for each in shard.names
    )
    if not paths:
        raise InputError(f"{name}: found no images")
    labels = _label_set(name, opened, paths)
    return FolderIndex(root, paths, labels, "", read=_reader(opened))


def _reader(shards: list[Shard]) -> Callable[[Path], bytes]:
    """Return a function that reads an image by the path of the shard and the name."""
    by_path = {shard.path: shard for shard in shards}

    @lru_cache(maxsize=OPEN)
    def opened(path: Path) -> Callable[[str], bytes]:
        return by_path[path].open()

    def read(path: Path) -> bytes:
        shard = next(parent for parent in path.parents if parent in by_path)
        return opened(shard)(str(path.relative_to(shard)))

    return read


def _check_splits(name: str, shards: Sequence[Path]) -> None:
    kinds = {path.suffix for path in shards}
    if len(kinds) > 1:
        raise InputError(f"{name}: holds {' and '.join(sorted(kinds))}; give a pattern")
    firsts = (path.name.replace(".", "-").split("-")[0] for path in shards)
    splits = sorted(SPLITS.intersection(firsts))
    if len(splits) > 1:
        pattern = shards[0].parent / f"{splits[0]}*{shards[0].suffix}"
        raise InputError(
            f"{name}: holds the splits {', '.join(splits)}; give the files of a split: "
            f"'{pattern}'"
        )


def _label_set(name: str, shards: list[Shard], paths: tuple[str, ...]) -> LabelSet:
    """Labels of all shards; either every image or no image has a label."""
    values = [label for shard in shards for label in shard.labels]
    kinds = Counter("none" if v is None else type(v).__name__ for v in values)
    if set(kinds) == {"none"}:
        return LabelSet(name, len(paths), None, None, (), {})
    if kinds["none"]:
        raise InputError(
            f"{name}: {paths[values.index(None)]} has no label, but "
            f"{len(paths) - kinds['none']:,} other images have; give --no-labels"
        )
    if len(kinds) > 1 or not {"int", "str"}.issuperset(kinds):
        raise InputError(
            f"{name}: labels are {' and '.join(sorted(kinds))}, expected whole numbers "
            "or names; give --no-labels"
        )
    names, labels = _numbered(name, values)
    names = _class_names(shards, names)
    return LabelSet(name, len(paths), labels, None, names, {})


def _numbered(name: str, values: list) -> tuple[tuple[str, ...], np.ndarray]:
    if isinstance(values[0], str):
        return number_by_name(values)
    # Numbers of Python may be of any length.
    if not all(-(2**63) <= value < 2**63 for value in values):
        raise InputError(f"{name}: a label has more than 64 bits")
    labels = np.array(values, np.int64)
    check_labels(labels, len(labels), name)
    return default_names(labels), labels


def _class_names(shards: list[Shard], numbers: tuple[str, ...]) -> tuple[str, ...]:
    """Class names in the shards, or numbers if there are no names."""
    first, *others = shards
    for other in others:
        if other.class_names != first.class_names:
            raise InputError(
                f"{other.path}: has other class names than {first.path}; pack both as "
                "two sources"
            )
    if not first.class_names:
        return numbers
    if len(first.class_names) < len(numbers):
        raise InputError(
            f"{first.path}: has {len(first.class_names)} class names, labels go up to "
            f"{len(numbers) - 1}"
        )
    return first.class_names
