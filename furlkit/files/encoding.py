"""Numbers in fewer bytes: float16, or int8 with a scale for each row."""

from pathlib import Path

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite

ENCODINGS = ("float32", "float16", "int8")
LARGEST = 127


def encoded(name: str, rows: np.ndarray, encoding: str) -> dict[str, np.ndarray]:
    """Rows (n, d) as the tensors of a file: `name`, and for int8 its scale beside it.

    int8 holds round(row / scale) with scale = max |row| / 127, so that the error of a
    value is at most half a scale.
    """
    if encoding == "int8":
        largest = np.abs(rows).max(axis=1, initial=0)
        tiny = np.finfo(np.float32).tiny * LARGEST
        scale = (np.where(largest > tiny, largest, 1) / LARGEST).astype(np.float32)
        whole = np.rint(rows / scale[:, None]).clip(-LARGEST, LARGEST)
        return {name: whole.astype(np.int8), _scale(name): scale}
    with np.errstate(over="ignore"):
        return {name: rows.astype(encoding)}


def decoded(path: Path, tensors: dict[str, np.ndarray], name: str) -> np.ndarray:
    """The rows of that name as float32, however they are stored; finite."""
    rows = tensors[name]
    if rows.dtype.kind == "f":
        check_finite(path, name, rows)
        return rows.astype(np.float32, copy=False)
    scale = tensors.get(_scale(name))
    if rows.dtype != np.int8 or scale is None or scale.shape != rows.shape[:1]:
        raise InputError(
            f"{path}: {name} is {rows.dtype} {rows.shape}; expected floating-point "
            "numbers, or int8 with a scale for each row"
        )
    check_finite(path, _scale(name), scale)
    return rows.astype(np.float32) * scale.astype(np.float32)[:, None]


def _scale(name: str) -> str:
    return f"{name}_scale"
