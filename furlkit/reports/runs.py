"""Folders of runs that pictures are made of, and the numbers they come to."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from furlkit.errors import InputError, UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

# More epochs than these in one round are no number that training wrote.
MOST_EPOCHS = 10**9


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


def files_below(folder: Path) -> Iterator[Path]:
    """Files by their suffix; hidden ones and what lies in hidden folders is not ours."""
    for path in sorted(folder.rglob("*.safetensors")):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield path


def planned_epochs(options: dict[str, Any]) -> int | None:
    """The epochs that the options of a training name, if they are a number of them."""
    plan = options.get("plan", options)  # Files of format version 1 have it nested.
    epochs = plan.get("epochs") if isinstance(plan, dict) else None
    return epochs if type(epochs) is int and 0 < epochs <= MOST_EPOCHS else None


def listed(record: "DataclassInstance") -> dict[str, Any]:
    """A dataclass of arrays as JSON has it."""
    return {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in asdict(record).items()
    }
