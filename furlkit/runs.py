"""Folders of runs that pictures are made of, and the numbers they come to."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.errors import InputError, UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


def check_runs(series: Sequence[tuple[str, tuple[Path, ...]]]) -> None:
    """Every label stands once, and has folders."""
    labels = [label for label, _ in series]
    for label, folders in series:
        if labels.count(label) > 1:
            raise UsageError(f"--series {label}: is there twice; give it another label")
        for folder in folders:
            if not folder.is_dir():
                raise InputError(
                    f"{folder}: is no folder; --series {label} wants the folder of a run"
                )


def listed(record: "DataclassInstance") -> dict[str, Any]:
    """A dataclass of arrays as JSON has it."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(record).items()
    }
