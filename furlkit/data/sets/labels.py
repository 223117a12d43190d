"""Labels of a dataset without images, sufficient for a partition."""

import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.fingerprint import fingerprint_of
from furlkit.errors import FurlkitError, InputError
from furlkit.files.opening import LONGEST_LIST, open_regular, read_bytes

LABEL_FILES = (".npy", ".json", ".txt")


@dataclass(frozen=True)
class LabelSet:
    """Labels and domains of every example; either may be unknown.

    `name` is the user's input, and `no_labels_because` the reason for missing labels of
    a folder: both are for messages only. Images with equal numbers in `groups`, such as
    the images of a patient, must stay together.
    """

    name: str
    examples: int
    labels: np.ndarray | None
    domains: np.ndarray | None
    class_names: tuple[str, ...]
    fingerprint: dict[str, Any]
    domain_names: tuple[str, ...] = ()
    no_labels_because: str = ""
    groups: np.ndarray | None = None

    @property
    def without_labels(self) -> str:
        """Start of a refusal: the dataset has no labels, and the reason if known."""
        reason = f" ({self.no_labels_because})" if self.no_labels_because else ""
        return f"{self.name}: has no labels{reason}"

    @property
    def classes(self) -> int:
        """The number of classes, 0 without labels or names."""
        return len(self.class_names)

    def subset(self, chosen: np.ndarray) -> "LabelSet":
        """The chosen examples, numbered from 0: a dataset without a fingerprint."""
        columns = {k: getattr(self, k) for k in ("labels", "domains", "groups")}
        taken: Any = {k: c[chosen] for k, c in columns.items() if c is not None}
        return replace(self, examples=len(chosen), fingerprint={}, **taken)

    def by_domain(self) -> dict[str, np.ndarray]:
        """Positions of the examples of each nonempty domain, by the domain's name.

        Empty without domains.
        """
        if self.domains is None:
            return {}
        names = self.domain_names
        if len(set(names)) < len(names):
            raise InputError(
                f"{self.name}: the domains are called {', '.join(names)}; pack with "
                "different --domain-names"
            )
        found = np.unique(self.domains)
        return {names[d]: np.flatnonzero(self.domains == d) for d in found}


def read_label_file(path: Path) -> LabelSet:
    """Read labels from .npy (integers), .json (a list) or .txt (one per line).

    Labels that are not all integers are class names, numbered in sorted order.
    """
    values = _read_values(path)
    if values.ndim != 1 or not len(values) or values.dtype.kind not in "iuU":
        raise InputError(
            f"{path}: found values of type {values.dtype} and shape {values.shape}, "
            "expected one integer or class name per example"
        )
    if values.dtype.kind == "U":
        names, labels = number_by_name(values.tolist())
    else:
        labels = values.astype(np.int64)
        check_labels(labels, len(labels), str(path))
        names = default_names(labels)
    fingerprint = fingerprint_of(len(labels), labels=labels)
    return LabelSet(str(path), len(labels), labels, None, names, fingerprint)


def number_by_name(values: Sequence[str]) -> tuple[tuple[str, ...], np.ndarray]:
    """Distinct names in sorted order, and the number of each value's name."""
    names = sorted(set(values))
    numbers = {name: number for number, name in enumerate(names)}
    return tuple(names), np.array([numbers[value] for value in values], np.int64)


def utf8_name(name: str) -> str:
    """The name of a file or folder as UTF-8, whatever the locale makes of it.

    Under the locale C, Python reads bytes beyond ASCII as lone surrogates.
    """
    return os.fsencode(name).decode("utf-8", "surrogateescape")


def check_labels(labels: np.ndarray, examples: int, where: str) -> None:
    """Raise InputError unless there is one non-negative integer per example."""
    if labels.dtype.kind not in "iu" or labels.shape != (examples,):
        raise InputError(
            f"{where}: labels are {labels.dtype} {labels.shape}, "
            f"expected integers of shape ({examples},)"
        )
    if len(labels) and labels.min() < 0:
        raise InputError(
            f"{where}: found the label {labels.min()}, expected labels from 0; "
            "if examples have no label, remove the labels"
        )
    # Histograms and class names have an entry for each class up to the largest label.
    if len(labels) and labels.max() >= max(2**16, 2 * examples):
        raise InputError(
            f"{where}: found the label {labels.max()} among {examples:,} examples; "
            "number the classes 0, 1, 2, ..."
        )


def default_names(labels: np.ndarray | None) -> tuple[str, ...]:
    """Class numbers from 0 to the highest label; () without labels."""
    return number_names(0 if labels is None else labels.max(initial=-1) + 1)


def number_names(classes: int) -> tuple[str, ...]:
    """Default class names: the class numbers."""
    return tuple(map(str, range(classes)))


def _read_values(path: Path) -> np.ndarray:
    try:
        with open_regular(path) as stream:
            is_numpy = path.suffix == ".npy" or stream.read(6) == b"\x93NUMPY"
            stream.seek(0)
            if is_numpy:
                return np.load(stream, allow_pickle=False)
        text = read_bytes(path, LONGEST_LIST).decode()
        return np.asarray(json.loads(text) if path.suffix == ".json" else _lines(text))
    except FurlkitError:
        raise
    except Exception as error:  # Damaged files make numpy raise many kinds.
        raise InputError(f"{path}: cannot be read as labels ({error})") from error


def _lines(text: str) -> list[Any]:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    try:
        return [int(line) for line in lines]
    except ValueError:
        return lines
