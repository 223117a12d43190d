"""The labels of a dataset without its images: all that a partition needs."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.fingerprint import fingerprint
from furlkit.errors import InputError

LABEL_FILES = (".npy", ".json", ".txt")


@dataclass(frozen=True)
class LabelSet:
    """Labels and domains of every example; either may be unknown."""

    name: str
    examples: int
    labels: np.ndarray | None
    domains: np.ndarray | None
    classes: int
    class_names: tuple[str, ...]
    fingerprint: dict[str, Any]
    domain_names: tuple[str, ...] = ()


def read_label_file(path: Path) -> LabelSet:
    """Read labels from .npy (integers), .json (a list) or .txt (one a line).

    Labels that are not all integers are names, and are numbered in sorted order.
    """
    values = _read_values(path)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuU":
        raise InputError(
            f"{path}: found {_described(values)}, wanted one integer or name an example"
        )
    labels, names = _numbered(values)
    check_labels(labels, len(labels), str(path))
    classes = count_classes(labels)
    return LabelSet(
        name=str(path),
        examples=len(labels),
        labels=labels,
        domains=None,
        classes=classes,
        class_names=names or number_names(classes),
        fingerprint=fingerprint(len(labels), labels=labels),
    )


def check_labels(labels: np.ndarray, examples: int, where: str) -> None:
    """Refuse labels that are not one non-negative integer an example."""
    if labels.dtype.kind not in "iu" or labels.shape != (examples,):
        raise InputError(
            f"{where}: labels are {labels.dtype} {labels.shape}, "
            f"integers ({examples},) were wanted"
        )
    if len(labels) and labels.min() < 0:
        raise InputError(
            f"{where}: found the label {labels.min()}; labels count from 0. "
            "Leave the labels out where there are none"
        )
    if len(labels) and labels.max() >= max(2**16, 2 * examples):
        raise InputError(
            f"{where}: found the label {labels.max()} among {examples:,} examples; "
            "number the classes 0, 1, 2, ..."
        )


def count_classes(labels: np.ndarray | None) -> int:
    """One more than the highest label; 0 without labels."""
    return 0 if labels is None or not len(labels) else int(labels.max()) + 1


def number_names(classes: int) -> tuple[str, ...]:
    """Names for classes that have none: their numbers."""
    return tuple(str(number) for number in range(classes))


def _read_values(path: Path) -> np.ndarray:
    try:
        if path.suffix == ".npy":
            return np.load(path, allow_pickle=False)
        text = path.read_text()
        return np.asarray(json.loads(text) if path.suffix == ".json" else _lines(text))
    except (OSError, ValueError, EOFError, MemoryError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as labels ({error})") from error


def _lines(text: str) -> list[Any]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        return [int(line) for line in lines]
    except ValueError:
        return lines


def _numbered(values: np.ndarray) -> tuple[np.ndarray, tuple[str, ...]]:
    if values.dtype.kind != "U":
        return values.astype(np.int64), ()
    names, labels = np.unique(values, return_inverse=True)
    return labels.astype(np.int64), tuple(map(str, names))


def _described(values: np.ndarray) -> str:
    return f"values of type {values.dtype} and shape {values.shape}"
