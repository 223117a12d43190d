"""Datasets in .npz files with arrays `images` and `labels`.

MedMNIST has arrays `train_images`, `train_labels`, `test_images`, ... for splits.
"""

import os
import zipfile
from pathlib import Path

import numpy as np

from furlkit import console
from furlkit.data.sets.fingerprint import fingerprint_of
from furlkit.data.sets.idx import check_unpacked
from furlkit.data.sets.labels import LabelSet, check_labels, default_names
from furlkit.data.sets.ranges import span_of, warn_of_few_levels, window_for
from furlkit.data.sets.window import (
    AS_STORED,
    MOST_CHANNELS,
    Raw,
    Reading,
    develop,
    type_range,
)
from furlkit.errors import FurlkitError, InputError
from furlkit.files.opening import open_regular

NAMES = ("labels", "domains", "class_names", "domain_names")


def npz_has_splits(path: Path) -> bool:
    """Return True if a file has arrays for splits, and no array of all images."""
    if not path.is_file():  # Opening a pipe would wait for a writer.
        return False
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as file:
            names = set(file.namelist())
    except (FurlkitError, OSError, ValueError, zipfile.BadZipFile):
        return False  # Reading the images reports the error.
    return "train_images.npy" in names and "images.npy" not in names


def read_npz(
    path: Path, reading: Reading = AS_STORED, split: str = ""
) -> tuple[LabelSet, np.ndarray, Reading]:
    """Labels, images (N, H, W, C), and the reading with the window in use.

    There may be `domains`, numbers like the labels, `class_names` and `domain_names`.
    Images are stored in shape (N, H, W, C), or (N, H, W) if grey. Nothing is unpickled.
    `split` chooses the arrays of a file with splits.
    """
    images = _images(path, split)
    labels = _label_set(path, _load(path, NAMES, split), images)
    try:
        return labels, *_developed(path, images, reading)
    except ValueError as error:
        raise InputError(f"{path}: in images, {error}") from error


def _developed(
    path: Path, images: np.ndarray, reading: Reading
) -> tuple[np.ndarray, Reading]:
    """Pixels of values that are not uint8; percentiles belong to single images."""
    whole = Raw(images, type_range(images.dtype))
    span = span_of([whole])
    if span is not None and reading.window is None:
        reading = window_for(f"{path}: images have", span, reading)
    elif span is not None:
        warn_of_few_levels(f"{path}: images have", span, reading)
    if whole.deep and "percentile" in str(reading.window):
        each = (develop(whole._replace(values=image), reading) for image in images)
        return np.stack(list(each)), reading
    return develop(whole, reading), reading


def read_npz_labels(path: Path, split: str = "") -> LabelSet:
    """Labels only; without labels, the images are read to identify the dataset."""
    columns = _load(path, NAMES, split)
    images = None if "labels" in columns else _images(path, split)
    return _label_set(path, columns, images)


def _label_set(
    path: Path, columns: dict[str, np.ndarray], images: np.ndarray | None
) -> LabelSet:
    examples = len(images) if images is not None else columns["labels"].size
    for name in ("labels", "domains"):
        if name in columns:
            check_labels(columns[name], examples, f"{path}: in {name}")
            columns[name] = columns[name].astype(np.int64)
    labels, domains = columns.get("labels"), columns.get("domains")
    class_names = _names(columns.get("class_names"), labels)
    domain_names = _names(columns.get("domain_names"), domains)
    hashed = fingerprint_of(examples, images=images, labels=labels, domains=domains)
    more = (class_names, hashed, domain_names)
    return LabelSet(str(path), examples, labels, domains, *more)


def _names(given: np.ndarray | None, column: np.ndarray | None) -> tuple[str, ...]:
    """Given names, or numbers if names are missing or too few."""
    names = () if given is None else tuple(map(str, np.ravel(given)))
    numbers = default_names(column)
    return names if len(names) >= len(numbers) else numbers


def _load(path: Path, names: tuple[str, ...], split: str = "") -> dict[str, np.ndarray]:
    """Arrays by name; with a split, convert MedMNIST's labels (N, 1) to (N)."""
    if split:
        found = _load(path, tuple(f"{split}_{name}" for name in names))
        return _columns({k.removeprefix(f"{split}_"): a for k, a in found.items()})
    try:
        with open_regular(path) as file, np.load(file, allow_pickle=False) as arrays:
            entries = arrays.zip.infolist()
            # zipfile unpacks at most the declared bytes.
            total = sum(entry.file_size for entry in entries)
            check_unpacked(path, total, os.fstat(file.fileno()).st_size)
            return {name: arrays[name] for name in names if name in arrays.files}
    except FurlkitError:
        raise
    except Exception as error:  # Damaged files make numpy and zipfile raise many kinds.
        raise InputError(f"{path}: cannot be read as .npz ({error})") from error


def _columns(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Arrays with labels (N); several labels for each image are left out."""
    labels = arrays.pop("labels", None)
    if labels is not None and labels.size == len(labels):
        arrays["labels"] = labels.reshape(-1)
    elif labels is not None:
        console.info(f"labels are {labels.shape}, several for each image; left out")
    return arrays


def _images(path: Path, split: str) -> np.ndarray:
    images = _load(path, ("images",), split).get("images")
    if images is None:
        name = f"{split}_images" if split else "images"
        raise InputError(f"{path}: has no array called {name}")
    if images.dtype.kind not in "iuf" or images.ndim not in (3, 4) or not images.size:
        raise InputError(
            f"{path}: images are {images.dtype} {images.shape}, "
            "expected numbers of shape (N, H, W) or (N, H, W, C)"
        )
    if split and images.ndim == 4 and len(set(images.shape[1:])) == 1:
        _, depth, height, width = images.shape
        raise InputError(
            f"{path}: {split}_images are {images.shape}, volumes of MedMNIST-3D, "
            "not images; save the slices and the volumes' labels in images and "
            f"labels: images.reshape(-1, {height}, {width}), labels.repeat({depth})"
        )
    images = images[..., None] if images.ndim == 3 else images
    channels_first = images.shape[1] in (1, 3) and images.shape[3] not in (1, 3)
    if images.shape[3] > MOST_CHANNELS or channels_first:
        raise InputError(
            f"{path}: images are {images.shape}, expected channels last, at most "
            f"{MOST_CHANNELS}; transpose them to (N, H, W, C)"
        )
    return images
