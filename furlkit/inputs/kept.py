"""Rows of a client's images in the memory of the private file."""

import numpy as np

from furlkit.errors import InputError
from furlkit.files.private import Private
from furlkit.weights import Tensors


def remembered_rows(what: str, rows: np.ndarray, index: np.ndarray) -> Tensors:
    """Store rows and their images in the form of a private file's memory."""
    return {f"{what}.rows": rows, f"{what}.index": index}


def kept_rows(
    private: Private | None, what: str, index: np.ndarray, width: int
) -> np.ndarray:
    """Return the rows kept for the images at `index`: 0 for unknown images."""
    found = np.zeros((len(index), width), np.float32)
    if private is None or f"{what}.rows" not in private.memory:
        return found
    rows, kept = private.memory[f"{what}.rows"], private.memory.get(f"{what}.index")
    fits = kept is not None and kept.dtype == np.int64 and kept.ndim == 1
    if kept is None or not fits or rows.shape != (len(kept), width):
        raise InputError(
            f"{private.path}: {what.replace('_', ' ')} are {rows.shape}, expected a "
            f"row of {width} numbers for each image; was it kept for another model?"
        )
    place = {image: row for row, image in enumerate(kept.tolist())}
    known = np.array([place.get(image, -1) for image in index.tolist()], np.int64)
    found[known >= 0] = rows[known[known >= 0]]
    return found
