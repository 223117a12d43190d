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

from furlkit.data.sets.fingerprint import fingerprint_of
from furlkit.data.sets.labels import LabelSet, number_by_name
from furlkit.errors import InputError

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
    class_names, labels = number_by_name(levels[-1]) if levels else ((), None)
    domain_names, codes = number_by_name(levels[0]) if domains else ((), None)
    outer, kind = (domain_names, "domains") if domains else (class_names, "classes")
    if outer and SPLITS.issuperset(outer):
        raise InputError(
            f"{root}: found folders {', '.join(outer)}, which are splits and not "
            f"{kind}; pass one of them, such as {root / outer[0]}"
        )
    fingerprint = fingerprint_of(len(paths), labels=labels, domains=codes, files=found)
    label_set = LabelSet(
        str(root), len(paths), labels, codes, class_names, fingerprint, domain_names
    )
    return FolderIndex(root, paths, label_set)


def read_images(
    index: FolderIndex, size: int | None, *, channels: int = 3, block: int = BLOCK
) -> Iterator[np.ndarray]:
    """Decode a folder as blocks of (n, size, size, channels) uint8, in order.

    Without a size, all images must have the size of the first: (n, H, W, channels).
    Only one block is in memory at a time.
    """
    from furlkit.data.sets.decode import decode_image

    shape = folder_shape(index, size, channels)[1:]

    def decode(name: str) -> np.ndarray:
        image = decode_image(index.root / name, size, channels)
        if image.shape != shape:
            raise InputError(
                f"{index.root / name}: found {image.shape[1]} x {image.shape[0]} pixels, "
                f"expected {shape[1]} x {shape[0]} as in the folder's first image; pass "
                "--image-size to pack"
            )
        return image

    # Decoding releases the GIL, so threads run in parallel.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(index), block):
            yield np.stack(list(pool.map(decode, index.paths[start : start + block])))


def folder_shape(
    index: FolderIndex, size: int | None, channels: int = 3
) -> tuple[int, int, int, int]:
    """Shape (N, H, W, C) of the decoded folder; opens at most one image."""
    if size is not None:
        return len(index), size, size, channels
    from furlkit.data.sets.decode import decode_image

    height, width, _ = decode_image(index.root / index.paths[0], None, channels).shape
    return len(index), height, width, channels


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


def _levels(root: Path, paths: tuple[str, ...], depth: int) -> list[tuple[str, ...]]:
    """The names of the first `depth` folders of every path; [] for a flat folder."""
    shallow = [path for path in paths if path.count("/") < depth]
    if not shallow:
        return list(zip(*(path.split("/")[:depth] for path in paths), strict=True))
    if depth == 1 and len(shallow) == len(paths):
        return []
    kind = "a class folder" if depth == 1 else "a domain folder and a class folder"
    raise InputError(
        f"{root}: {shallow[0]} is not inside {kind}, but "
        f"{len(paths) - len(shallow):,} other images are; move or remove it"
    )
