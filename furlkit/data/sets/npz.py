"""Datasets in .npz files with arrays `images` and `labels`."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from furlkit.data.sets.labels import check_labels
from furlkit.errors import InputError

COLUMNS = ("labels", "domains")


def read_npz(
    path: Path, *, with_images: bool = True
) -> tuple[np.ndarray | None, dict[str, np.ndarray]]:
    """Images (N, H, W, C), and those of `labels`, `domains`, `class_names` that exist.

    Images are stored as uint8 (N, H, W, C), or (N, H, W) if grey. Without `with_images`
    they are read only if there are no labels, to identify the dataset. Nothing is
    unpickled.
    """
    columns = _load(path, (*COLUMNS, "class_names"))
    images = None
    if with_images or "labels" not in columns:
        images = _as_images(path, _load(path, ("images",)).get("images"))
    examples = len(images) if images is not None else columns["labels"].size
    for name in COLUMNS:
        if name in columns:
            check_labels(columns[name], examples, f"{path}: in {name}")
            columns[name] = columns[name].astype(np.int64)
    return images, columns


def _load(path: Path, names: tuple[str, ...]) -> dict[str, np.ndarray]:
    try:
        with np.load(path, allow_pickle=False) as arrays:
            return {name: arrays[name] for name in names if name in arrays.files}
    except (  # what numpy and zipfile raise for damaged files
        OSError, ValueError, EOFError, KeyError, AttributeError, TypeError, MemoryError,
        NotImplementedError, zipfile.BadZipFile, zlib.error,
    ) as error:  # fmt: skip
        raise InputError(f"{path}: cannot be read as .npz ({error})") from error


def _as_images(path: Path, images: np.ndarray | None) -> np.ndarray:
    if images is None:
        raise InputError(f"{path}: has no array called images")
    if images.dtype != np.uint8 or images.ndim not in (3, 4) or not images.size:
        raise InputError(
            f"{path}: images are {images.dtype} {images.shape}, "
            "expected uint8 (N, H, W) or (N, H, W, C)"
        )
    images = images[..., None] if images.ndim == 3 else images
    if images.shape[3] not in (1, 3):
        raise InputError(
            f"{path}: images are {images.shape}, expected 1 or 3 channels last; "
            "transpose them to (N, H, W, C)"
        )
    return images
