"""Datasets in idx files, plain or gzipped, the format of MNIST and its successors.

train-images-idx3-ubyte.gz    images (N, H, W) to train on; grey
train-labels-idx1-ubyte.gz    labels (N) in the same folder, optional
t10k-images-idx3-ubyte.gz     images to test on, and labels likewise

A file starts with two zeros, the type of the numbers (8: unsigned bytes), the number of
dimensions, and each dimension in a big-endian integer of four bytes.
"""

import gzip
import io
import math
import struct
import zlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from furlkit.data.sets.fingerprint import fingerprint_of
from furlkit.data.sets.labels import LabelSet, check_labels, default_names
from furlkit.errors import InputError
from furlkit.files.opening import open_regular, reading

GZIP = b"\x1f\x8b"
IMAGES = b"\0\0\x08\x03"
ENDINGS = ("-ubyte", "-ubyte.gz")
STARTS = {"train": ("train",), "test": ("t10k", "test")}
# A gzipped file may unpack to this multiple of its size, within these bounds. Images
# shrink by less than 20; a file of zeros shrinks by 1,000.
MOST_RATIO, SMALL, LARGE = 200, 2**26, 2**32
Shape = tuple[int, ...]


def idx_splits(folder: Path) -> dict[str, Path]:
    """Image file of each split of a folder of idx files; {} for other folders."""
    return {
        split: path
        for split, starts in STARTS.items()
        if (path := _first(folder, (f"{start}-images" for start in starts), "idx3"))
    }


def idx_file(path: Path, split: str) -> Path:
    """Image file: the path, or the file for a split of a folder."""
    if not path.is_dir():
        return path
    splits = idx_splits(path)
    if split not in splits:
        names = ", ".join(each.name for each in splits.values())
        raise InputError(
            f"{path}: has no {split} split, expected {STARTS[split][0]}-images-idx3-ubyte "
            f"or .gz beside {names}"
        )
    return splits[split]


def read_idx(path: Path, name: str) -> tuple[LabelSet, np.ndarray]:
    """Labels, if there is a label file in the folder, and images (N, H, W, 1).

    `name` is the user's path. A plain file is mapped, not read.
    """
    images = _read(path, 3)[..., None]
    stem, named, _ = path.name.rpartition("images")
    beside = _first(path.parent, [f"{stem}labels"], "idx1") if named else None
    labels = _read(beside, 1).astype(np.int64) if beside else None
    if labels is not None and beside:
        check_labels(labels, len(images), str(beside))
    hashed = fingerprint_of(len(images), images=images, labels=labels)
    names = default_names(labels)
    return LabelSet(name, len(images), labels, None, names, hashed), images


def _first(folder: Path, stems: Iterable[str], dimensions: str) -> Path | None:
    """First file with one of these names; plain files come before gzipped files."""
    endings = [f"{mark}{dimensions}{end}" for mark in "-." for end in ENDINGS]
    paths = (folder / (stem + ending) for stem in stems for ending in endings)
    return next((path for path in paths if path.is_file()), None)


def _read(path: Path, dimensions: int) -> np.ndarray:
    """Array of an idx file with this number of dimensions."""
    with open_regular(path) as file, reading(path):
        size = file.seek(0, io.SEEK_END)
        file.seek(0)
        zipped = file.read(2) == GZIP
        file.seek(0)
        try:
            stream = gzip.GzipFile(fileobj=file) if zipped else file
            shape = _shape(path, stream.read(4 + 4 * dimensions), dimensions)
            if not zipped:
                return _map(path, shape, size)
            _check_bound(path, math.prod(shape), size)
            return _unpack(path, stream, shape)
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise InputError(
                f"{path}: is not a complete gzip file ({error}); copy it again"
            ) from error


def _shape(path: Path, start: bytes, dimensions: int) -> Shape:
    if start[:3] != IMAGES[:3] or len(start) < 4:
        raise InputError(
            f"{path}: starts with {start[:4].hex(' ') or 'nothing'}, expected 00 00 08 "
            f"0{dimensions}: an idx file of unsigned bytes"
        )
    if start[3] != dimensions:
        cure = "the image file; labels are read from the label file in the folder"
        raise InputError(
            f"{path}: is an idx file of {start[3]} dimensions, expected {dimensions}"
            + (f"; give {cure}" if dimensions == 3 else "")
        )
    if len(start) < 4 + 4 * dimensions:
        raise InputError(f"{path}: ends within its header; copy it again")
    shape = struct.unpack(f">{dimensions}I", start[4:])
    if not all(shape):
        raise InputError(f"{path}: declares {_by(shape)} numbers, so no examples")
    return shape


def _map(path: Path, shape: Shape, size: int) -> np.ndarray:
    start = 4 + 4 * len(shape)
    if size != start + math.prod(shape):
        raise InputError(
            f"{path}: declares {_by(shape)} numbers and has {size - start:,}; copy it "
            "again"
        )
    return np.memmap(path, np.uint8, "r", start, shape)


def _check_bound(path: Path, count: int, size: int) -> None:
    most = min(LARGE, max(SMALL, MOST_RATIO * size))
    if count > most:
        raise InputError(
            f"{path}: declares {count:,} bytes, a gzipped file of {size:,} may unpack to "
            f"{most:,}; unpack it with gunzip if you trust it"
        )


def check_unpacked(path: Path, total: int, size: int) -> None:
    """Refuse a compressed file that unpacks to far more bytes than images do."""
    most = max(SMALL, MOST_RATIO * size)
    if total > most:
        raise InputError(
            f"{path}: declares {total:,} bytes, a file of {size:,} may unpack to {most:,}"
        )


def _unpack(path: Path, stream: io.BufferedIOBase, shape: Shape) -> np.ndarray:
    array, done = np.empty(math.prod(shape), np.uint8), 0
    while read := stream.readinto(array[done:].data):
        done += read
    # The last read compares the checksum.
    if done < len(array) or stream.read(1):
        found = "more" if done == len(array) else f"{done:,}"
        raise InputError(
            f"{path}: declares {_by(shape)} numbers and has {found}; copy it again"
        )
    return array.reshape(shape)


def _by(shape: Shape) -> str:
    return " x ".join(f"{each:,}" for each in shape)
