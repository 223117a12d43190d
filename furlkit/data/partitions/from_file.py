"""Existing partitions: indices from a JSON file or a furlkit partition file."""

import json
import reprlib
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.labels import LabelSet
from furlkit.errors import InputError, UsageError
from furlkit.files.opening import LONGEST_LIST, read_bytes

EXPECTED = 'expected {"0": [indices], "1": [...], "public": [...]} or a list of lists'


def from_file(
    data: LabelSet, *, split_file: Path, with_replacement: bool, min_size: int
) -> tuple[list[np.ndarray], np.ndarray]:
    """Sorted indices of every client and of the public part, checked.

    JSON is an object {"0": [...], "1": [...], "public": [...]} or a list of lists.
    """
    path, examples = Path(split_file), data.examples
    parts, public = _read_split(path)
    used = np.concatenate([public, *parts])
    if len(used) and (used.min() < 0 or used.max() >= examples):
        wrong = used[(used < 0) | (used >= examples)][0]
        raise InputError(
            f"{path}: found index {wrong}, expected 0 to {examples - 1:,}; was the "
            "file made for another dataset?"
        )
    times = np.bincount(used, minlength=1)
    if times.max() > 1 and not with_replacement:
        raise InputError(
            f"{path}: found index {times.argmax()} {times.max()} times; remove the "
            "duplicates or pass --with-replacement"
        )
    for client, part in enumerate(parts):
        if len(part) < min_size:
            raise UsageError(
                f"{path}: client {client} has {len(part)} examples, expected at least "
                f"{min_size}; lower --min-size if this is intended"
            )
    return parts, public


def _read_split(path: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Sorted indices of every client and of the public part."""
    if path.suffix == ".safetensors":
        from furlkit.files.partition import read_partition

        partition = read_partition(path)
        parts = [partition.of(client) for client in range(partition.facts.clients)]
        return [np.sort(part) for part in parts], np.sort(partition.public)
    content = _read_json(path)
    if isinstance(content, list):
        content = {str(client): part for client, part in enumerate(content)}
    if not isinstance(content, dict):
        raise InputError(
            f"{path}: found a value of type {type(content).__name__}; {EXPECTED}"
        )
    public = _indices(path, "public", content.pop("public", []))
    if not content:
        raise InputError(f"{path}: found no clients; {EXPECTED}")
    if set(content) != {str(client) for client in range(len(content))}:
        raise InputError(
            f"{path}: found clients {reprlib.repr(list(content))}; number them from 0"
        )
    parts = [
        _indices(path, f"client {client}", content[str(client)])
        for client in range(len(content))
    ]
    return parts, public


def _read_json(path: Path) -> Any:
    try:
        return json.loads(read_bytes(path, LONGEST_LIST))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from error


def _indices(path: Path, who: str, values: Any) -> np.ndarray:
    try:
        part = np.asarray(values if values else np.empty(0, np.int64))
    except ValueError:
        part = np.empty(())
    if part.ndim != 1 or part.dtype.kind != "i":
        raise InputError(f"{path}: {who} is not a list of integers; {EXPECTED}")
    return np.sort(part.astype(np.int64))
