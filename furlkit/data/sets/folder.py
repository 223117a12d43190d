"""Folders of images: indexed without decoding, decoded in blocks by threads.

pictures/cat/001.jpg            one folder per class, with files at any depth
pictures/001.jpg                no class folders: images without labels
pictures/art/cat/001.jpg        with `domains`: one folder per domain, classes below
"""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from furlkit.data.sets.decode import decode_image, image_size_of
from furlkit.data.sets.fingerprint import fingerprint_of
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import InputError, UsageError

JPEG = (".jpg", ".jpeg", ".jfif")
ENDINGS = (*JPEG, ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
SPLITS = {"train", "test", "val", "valid", "validation"}
BLOCK = 256


@dataclass(frozen=True)
class FolderIndex:
    """The images of a folder: sorted relative paths, and their labels."""

    root: Path
    paths: tuple[str, ...]
    labels: LabelSet

    def __len__(self) -> int:
        return len(self.paths)


def index_folder(root: Path, *, domains: bool = False) -> FolderIndex:
    """List the images of a folder without opening them.

    Hidden files, hidden folders and files that are not images are skipped; links are
    followed. A folder without images is not a class.
    """
    found = sorted(_images(str(root), "", frozenset()))
    if not found:
        raise InputError(f"{root}: found no images; expected {', '.join(ENDINGS)}")
    paths = tuple(path for path, _ in found)
    levels = _levels(root, paths, 2 if domains else 1)
    class_names, labels = _numbered(levels[-1]) if levels else ((), None)
    domain_names, codes = _numbered(levels[0]) if domains else ((), None)
    if not domains and class_names and SPLITS.issuperset(class_names):
        raise InputError(
            f"{root}: found folders {', '.join(class_names)}, which are splits and not "
            f"classes; pass one of them, such as {root / class_names[0]}"
        )
    fingerprint = fingerprint_of(len(paths), labels=labels, files=found)
    label_set = LabelSet(
        str(root), len(paths), labels, codes, class_names, fingerprint, domain_names
    )
    return FolderIndex(root, paths, label_set)


def read_images(
    index: FolderIndex,
    size: int | None,
    *,
    channels: int = 3,
    threads: int | None = None,
    block: int = BLOCK,
) -> Iterator[np.ndarray]:
    """Decode a folder as blocks of (n, size, size, channels) uint8, in order.

    Without a size, all images must have the size of the first: (n, H, W, channels).
    Only one block is in memory at a time.
    """
    shape = folder_shape(index, size, channels)[1:]
    # Decoding releases the GIL, so threads run in parallel.
    with ThreadPoolExecutor(threads or min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(index), block):
            paths = [index.root / name for name in index.paths[start : start + block]]
            pixels = pool.map(lambda path: decode_image(path, size, channels), paths)
            yield _stacked(paths, list(pixels), shape)


def folder_shape(
    index: FolderIndex, size: int | None, channels: int = 3
) -> tuple[int, int, int, int]:
    """Shape (N, H, W, C) of the decoded folder; opens at most one image."""
    if channels not in (1, 3):
        raise UsageError(f"{channels} channels: expected 1 (grey) or 3 (colour)")
    if size is not None and size < 1:
        raise UsageError(f"--image-size {size}: expected at least 1")
    if size is not None:
        return len(index), size, size, channels
    return len(index), *image_size_of(index.root / index.paths[0]), channels


def _stacked(
    paths: list[Path], pixels: list[np.ndarray], shape: tuple[int, ...]
) -> np.ndarray:
    for path, image in zip(paths, pixels, strict=True):
        if image.shape != shape:
            raise InputError(
                f"{path}: found {image.shape[1]} x {image.shape[0]} pixels, expected "
                f"{shape[1]} x {shape[0]} as in the folder's first image; pass "
                "--image-size to pack"
            )
    return np.stack(pixels)


def _images(
    root: str, below: str, above: frozenset[tuple[int, int]]
) -> Iterator[tuple[str, int]]:
    """Walk a folder; `above` are its parents, so that link cycles are not followed."""
    try:
        here = os.stat(os.path.join(root, below))
        if (here.st_dev, here.st_ino) in above:
            return
        above |= {(here.st_dev, here.st_ino)}
        with os.scandir(os.path.join(root, below)) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    continue
                name = f"{below}/{entry.name}" if below else entry.name
                if entry.is_dir():
                    yield from _images(root, name, above)
                elif entry.name.lower().endswith(ENDINGS):
                    yield name, entry.stat().st_size
    except OSError as error:
        where = error.filename or root
        raise InputError(f"{where}: cannot be read ({error.strerror})") from error


def _levels(root: Path, paths: tuple[str, ...], depth: int) -> list[list[str]]:
    """The names of the first `depth` folders of every path; [] for a flat folder."""
    split = [path.split("/", depth) for path in paths]
    shallow = [
        path for path, parts in zip(paths, split, strict=True) if len(parts) <= depth
    ]
    if not shallow:
        return [list(level) for level in zip(*split, strict=True)][:depth]
    if depth == 1 and len(shallow) == len(paths):
        return []
    kind = "a class folder" if depth == 1 else "a domain folder and a class folder"
    raise InputError(
        f"{root}: {shallow[0]} is not inside {kind}, but "
        f"{len(paths) - len(shallow):,} other images are; move or remove it"
    )


def _numbered(names: list[str]) -> tuple[tuple[str, ...], np.ndarray]:
    unique = sorted(set(names))
    numbers = {name: number for number, name in enumerate(unique)}
    return tuple(unique), np.array([numbers[name] for name in names], np.int64)
