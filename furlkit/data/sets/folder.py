"""Folders of images: indexed without opening them, decoded in blocks by threads.

pictures/cat/001.jpg            one folder per class, with files at any depth
pictures/001.jpg                some images in no class folder: images without labels,
pictures/2024/may/002.jpg       nested in any way
pictures/art/cat/001.jpg        with `domains`: one folder per domain, classes below
"""

import hashlib
import os
import stat
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from furlkit import console
from furlkit.data.sets.fingerprint import fingerprint_of
from furlkit.data.sets.labels import LabelSet, number_by_name, utf8_name
from furlkit.data.sets.window import AS_STORED, Reading
from furlkit.errors import InputError

JPEG = (".jpg", ".jpeg", ".jfif")
MEDICAL = (".dcm", ".dicom", ".nii", ".nii.gz")
COMMON = (*JPEG, ".png", ".bmp", ".webp", ".tif", ".tiff", ".gif", ".ppm", ".pgm")
ENDINGS = (*COMMON, *MEDICAL)
SPLITS = {"train", "test", "val", "valid", "validation"}
BLOCK = 256
Size = tuple[int, int]  # Width and height.
S = TypeVar("S")
T = TypeVar("T")


@dataclass
class Listing:
    """Contents of a folder: images by relative path, and other entries.

    `broken` maps unreadable files and folders to reasons. `others` is the number of
    files that are not images, `empty` the number of folders without images; hidden
    files and folders are ignored.
    """

    images: dict[str, os.stat_result] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    others: int = 0
    empty: int = 0

    @property
    def skipped(self) -> str:
        """Text about skipped files; empty if there are none."""
        counts = {
            ("file that is no image", "files that are no images"): self.others,
            ("folder without images", "folders without images"): self.empty,
        }
        return " and ".join(f"{n:,} {words[n > 1]}" for words, n in counts.items() if n)


@dataclass(frozen=True)
class FolderIndex:
    """Images of a folder: sorted relative paths, and labels.

    `state` changes if the file system reports a changed file, without reading. `pages`
    holds the page of each image if every page of a file is an image. `read` returns the
    bytes of an image inside another file; otherwise images are files.
    """

    root: Path
    paths: tuple[str, ...]
    labels: LabelSet
    state: str
    pages: tuple[int, ...] = ()
    read: Callable[[Path], bytes] | None = None

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def places(self) -> list[tuple[str, int]]:
        """Path and page of every image."""
        return list(zip(self.paths, self.pages or [0] * len(self), strict=True))

    def at(self, positions: np.ndarray) -> "FolderIndex":
        """Images at some positions, with labels."""
        places, labels = self.places, self.labels.subset(positions)
        paths, pages = zip(*(places[i] for i in positions), strict=True)
        return replace(self, paths=paths, pages=pages, labels=labels)


def list_folder(root: Path) -> Listing:
    """Walk a folder without opening files.

    Hidden files and folders are skipped; links are followed, but not in cycles.
    """
    found = Listing()
    _walk(root, "", frozenset(), found)
    return found


def index_folder(
    root: Path,
    *,
    domains: bool = False,
    labelled: bool | None = None,
    without: Collection[str] | None = None,
) -> FolderIndex:
    """List the images of a folder and their labels without opening files.

    Files that are not images are skipped. A folder without images is not a class. If
    only some images are in a class folder, no image has a label; `labelled` refuses
    such a folder, or reads no labels if False. `without`: paths to leave out; broken
    files are refused without this list.
    """
    listing = list_folder(root)
    if listing.broken and without is None:
        name, reason = min(listing.broken.items())
        raise InputError(f"{root / name}: cannot be read ({reason})")
    paths = tuple(sorted(listing.images.keys() - set(without or ())))
    if not paths:
        raise InputError(f"{root}: found no images; expected {', '.join(ENDINGS)}")
    if listing.skipped:
        console.info(f"{root}: skipped {listing.skipped}")
    chosen = {path: listing.images[path] for path in paths}
    labels = _labels(root, paths, domains, labelled)
    files = ((path, about.st_size) for path, about in chosen.items())
    fingerprint = fingerprint_of(
        len(paths), labels=labels.labels, domains=labels.domains, files=files
    )
    labels = replace(labels, fingerprint=fingerprint)
    return FolderIndex(root, paths, labels, state_of(chosen.values()))


def state_of(stats: Iterable[os.stat_result]) -> str:
    """Hash of the file system's facts about files, in order, without names."""
    digest = hashlib.sha256()
    for each in stats:
        times = each.st_mtime_ns, each.st_ctime_ns
        digest.update(repr((each.st_dev, each.st_ino, each.st_size, times)).encode())
    return digest.hexdigest()


def in_blocks(
    function: Callable[[S], T], paths: Sequence[S], block: int = BLOCK
) -> Iterator[list[T]]:
    """Call a function for each path, in threads; one block in memory at a time."""
    # Decoding releases the GIL, so threads run in parallel.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        for start in range(0, len(paths), block):
            yield list(pool.map(function, paths[start : start + block]))


def read_images(
    index: FolderIndex,
    size: int | None,
    *,
    channels: int = 3,
    reading: Reading = AS_STORED,
    only_grey: bool = False,
    block: int = BLOCK,
) -> Iterator[np.ndarray]:
    """Decode a folder to blocks of (n, size, size, channels), in order.

    Without a size, all images must have the size of the first: (n, H, W, channels).
    With `only_grey`, images in colour are refused. Only one block is in memory at a time.
    """
    from furlkit.data.sets.decode import decode_file, fitted

    _, height, width, _ = folder_shape(index, size, channels, reading)

    def decode(place: tuple[str, int]) -> np.ndarray:
        name, page = place
        image = decode_file(index.root / name, channels, reading, page, index.read)
        if only_grey and not image.grey:
            raise InputError(
                f"{index.root / name}: is in colour, a sample of the folder is "
                "grey; give --channels 1 or --channels 3"
            )
        if size is None and image.size != (width, height):
            raise other_size(index.root / name, image.size, (width, height))
        return fitted(image.pixels, size)

    for images in in_blocks(decode, index.places, block):
        yield np.stack(images)


def size_range(sizes: Collection[Size]) -> str:
    """Sizes (width, height) in words: number of sizes, smallest and largest."""
    ordered = sorted(sizes, key=lambda size: (size[0] * size[1], size))
    least, most = (f"{width} x {height}" for width, height in (ordered[0], ordered[-1]))
    if len(ordered) == 1:
        return f"{least} pixels"
    return f"{len(ordered):,} sizes, {least} to {most} pixels"


def other_size(path: Path, found: Size, expected: Size) -> InputError:
    """Error for an image of a different size."""
    return InputError(
        f"{path}: found {found[0]} x {found[1]} pixels, expected {expected[0]} x "
        f"{expected[1]} like the folder's first image; give --image-size"
    )


def folder_shape(
    index: FolderIndex,
    size: int | None,
    channels: int = 3,
    reading: Reading = AS_STORED,
) -> tuple[int, int, int, int]:
    """Shape (N, H, W, C) of the decoded folder; opens at most one image."""
    if size is not None:
        return len(index), size, size, channels
    from furlkit.data.sets.decode import decode_file

    first = decode_file(index.root / index.paths[0], channels, reading, read=index.read)
    return len(index), first.size[1], first.size[0], channels


def _walk(
    root: Path, below: str, above: frozenset[tuple[int, int]], found: Listing
) -> None:
    """List a folder; `above` holds the parents, to avoid link cycles."""
    before = len(found.images) + len(found.broken)
    try:
        here = os.stat(root / below)
        if (here.st_dev, here.st_ino) in above:
            return
        with os.scandir(root / below) as entries:
            inside = [entry for entry in entries if not entry.name.startswith(".")]
    except OSError as error:
        found.broken[below] = error.strerror or str(error)
        return
    above |= {(here.st_dev, here.st_ino)}
    for entry in inside:
        name = f"{below}/{entry.name}" if below else entry.name
        try:
            if entry.is_dir():
                _walk(root, name, above, found)
            elif is_image(entry):
                found.images[name] = entry.stat()
            else:
                found.others += 1
        except OSError as error:
            found.broken[name] = error.strerror or str(error)
    found.empty += len(found.images) + len(found.broken) == before


def is_image(entry: os.DirEntry) -> bool:
    """Return True for a regular file with the name of an image.

    DICOM archives use names without a suffix, so the start of these files is read.
    """
    name = entry.name.lower()
    ending = name.rpartition(".")[2] if "." in name else ""
    unnamed = (not ending or ending.isdecimal()) and name != "dicomdir"
    if not (name.endswith(ENDINGS) or unnamed):
        return False
    if not stat.S_ISREG(entry.stat().st_mode):
        return False
    return name.endswith(ENDINGS) or _is_dicom(entry.path)


def _is_dicom(path: str) -> bool:
    with suppress(OSError), open(path, "rb") as stream:
        return stream.read(132)[128:] == b"DICM"
    return False


def _labels(
    root: Path, paths: tuple[str, ...], domains: bool, labelled: bool | None
) -> LabelSet:
    """Labels from the names of folders, without a fingerprint."""
    none = LabelSet(str(root), len(paths), None, None, (), {})
    depth = domains + (labelled is not False)
    shallow = [path for path in paths if path.count("/") < depth]
    if depth == 0 or (len(shallow) == len(paths) and not domains):
        return none
    if shallow:
        expected = ["a domain folder"] * domains + ["a class folder"]
        inside = f"is not inside {' and '.join(expected[:depth])}"
        others = len(paths) - len(shallow)
        reason = f"{shallow[0]} {inside}, but {others:,} other images are"
        if domains or labelled:
            raise InputError(
                f"{root}: {reason}; move or remove it"
                + (", or give --no-labels" if labelled and not domains else "")
            )
        console.info(f"{root}: images have no labels, since {reason}")
        return replace(none, no_labels_because=reason)
    named = (utf8_name(path).split("/")[:depth] for path in paths)
    levels = list(zip(*named, strict=True))
    _check_splits(root, {*levels[0]}, "domains" if domains else "classes")
    class_names, labels = number_by_name(levels[-1]) if depth > domains else ((), None)
    domain_names, codes = number_by_name(levels[0]) if domains else ((), None)
    return replace(
        none, labels=labels, domains=codes, class_names=class_names,
        domain_names=domain_names,
    )  # fmt: skip


def _check_splits(root: Path, names: set[str], kind: str) -> None:
    if SPLITS.issuperset(names):
        first, *_ = listed = sorted(names)
        raise InputError(
            f"{root}: found folders {', '.join(listed)}, which are splits, not "
            f"{kind}; pass a single split, such as {root / first}"
        )
