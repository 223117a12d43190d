"""Datasets by name or path: images for training, labels alone for partitions.

A name is one of `names()`. A path is an image folder, an .npz of arrays, or a packed
.safetensors file; it is one whole set, so that `split` picks nothing from it: give the
path of the split. Neither function imports torch for a path, for `digits` or for a
label file, unless images must be resized.
"""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import catalogue
from furlkit.data.sets import digits
from furlkit.data.sets.fingerprint import fingerprint, label_fingerprint
from furlkit.data.sets.folder import (
    FolderIndex,
    folder_shape,
    index_folder,
    read_images,
)
from furlkit.data.sets.labels import (
    LABEL_FILES,
    LabelSet,
    count_classes,
    number_names,
    read_label_file,
)
from furlkit.data.sets.npz import read_npz
from furlkit.data.sets.resize import resize_images
from furlkit.data.sets.torchvision import KNOWN, Known, read_torchvision
from furlkit.errors import InputError, UsageError

DEFAULT_ROOT = Path("data")
SPLITS = ("train", "test")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class ImageSet:
    """Images as (N, H, W, C) uint8, in memory or memory-mapped, and what is known.

    `name` is what the user gave, for messages only. `mean` and `std` are the usual
    numbers for values in [0, 1]. `fingerprint` is of the images before any resizing.
    """

    name: str
    images: np.ndarray
    labels: np.ndarray | None
    domains: np.ndarray | None
    classes: int
    class_names: tuple[str, ...]
    mean: tuple[float, ...]
    std: tuple[float, ...]
    fingerprint: dict[str, Any]
    domain_names: tuple[str, ...] = ()


def names() -> tuple[str, ...]:
    """The datasets known by name."""
    return ("digits", *KNOWN, *catalogue.datasets(("digits", *KNOWN)))


def open_images(
    name_or_path: str | Path,
    split: str = "train",
    *,
    root: Path | None = None,
    download: bool = False,
    image_size: int | None = None,
) -> ImageSet:
    """Open a dataset with its images.

    `root` is where torchvision's sets are (`data` in the working folder if not given).
    `image_size` resizes the shorter side and cuts out the centre.
    """
    name = str(name_or_path)
    if name in names():
        opened = _named(name, split, root, download)
    else:
        path = _existing(name)
        if path.is_dir():
            return _folder_images(path, index_folder(path), image_size)
        opened = _packed(path) if path.suffix == ".safetensors" else _npz(path)
    return _resized(opened, image_size)


def open_labels(
    name_or_path: str | Path,
    split: str = "train",
    *,
    root: Path | None = None,
    download: bool = False,
    domains: bool = False,
) -> LabelSet:
    """Open the labels of a dataset, decoding no image: all that a partition needs.

    Also takes a plain file of labels: .npy, .json or .txt. `domains` reads a folder as
    domain/class/image.
    """
    name = str(name_or_path)
    if name in names():
        return _without_images(_named(name, split, root, download))
    path = _existing(name, *LABEL_FILES)
    if path.is_dir():
        return _folder_labels(path, index_folder(path, domains=domains))
    if path.suffix in LABEL_FILES:
        return read_label_file(path)
    if path.suffix == ".safetensors":
        return _without_images(_packed(path))
    images, columns = read_npz(path, with_images=False)
    return _npz_labels(path, images, columns)


def usual_numbers(channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and spread for images nothing is known of: ImageNet's, or a half for grey."""
    if channels == 3:
        return IMAGENET_MEAN, IMAGENET_STD
    return (0.5,) * channels, (0.5,) * channels


def _named(name: str, split: str, root: Path | None, download: bool) -> ImageSet:
    if split not in SPLITS:
        raise UsageError(f"split {split}: known are {', '.join(SPLITS)}")
    labels: np.ndarray | None
    if name == "digits":
        images, labels = digits.read_digits(split)
        class_names, mean, std = digits.CLASSES, digits.MEAN, digits.STD
    else:
        root = DEFAULT_ROOT if root is None else Path(root)
        known, read = _reader(name)
        images, labels, class_names = read(split, root, download=download)
        mean, std = known.mean, known.std
    mark = fingerprint(len(images), images=images, labels=labels)
    classes = len(class_names)
    return ImageSet(
        name, images, labels, None, classes, class_names, mean, std, mark
    )  # fmt: skip


def _reader(name: str) -> tuple[Known | catalogue.Dataset, Callable[..., Any]]:
    """A dataset of torchvision's or of another package, and the function that reads it."""
    if name in KNOWN:
        return KNOWN[name], partial(read_torchvision, name)
    added = catalogue.datasets()[name]
    return added, catalogue.load(added.function)


def _packed(path: Path) -> ImageSet:
    from furlkit.files.dataset import read_dataset

    packed = read_dataset(path)
    facts = packed.facts
    _check_packed_labels(path, packed.labels, facts.fingerprint)
    class_names = tuple(facts.class_names) or number_names(count_classes(packed.labels))
    return ImageSet(
        str(path), packed.images, packed.labels, packed.domains, len(class_names),
        class_names, tuple(facts.mean), tuple(facts.std), facts.fingerprint,
        tuple(facts.domain_names),
    )  # fmt: skip


def _check_packed_labels(
    path: Path, labels: np.ndarray | None, mark: dict[str, Any]
) -> None:
    """Images are mapped unread, labels are few: damage to them is found here."""
    known = None if labels is None else label_fingerprint(labels)
    if mark.get("labels") != known:
        raise InputError(
            f"{path}: its labels do not match the fingerprint in its header; the file "
            "was damaged or edited; copy it again or pack it anew"
        )


def _npz(path: Path) -> ImageSet:
    images, columns = read_npz(path)
    if images is None:
        raise InputError(f"{path}: has no array called images")
    return _with_images(_npz_labels(path, images, columns), images)


def _npz_labels(
    path: Path, images: np.ndarray | None, columns: dict[str, np.ndarray]
) -> LabelSet:
    labels, domains = columns.get("labels"), columns.get("domains")
    examples = len(images) if images is not None else len(columns["labels"])
    given = tuple(map(str, np.ravel(columns.get("class_names", ()))))
    classes = max(count_classes(labels), len(given))
    class_names = given if len(given) == classes else number_names(classes)
    mark = fingerprint(examples, images=images, labels=labels)
    places = number_names(count_classes(domains))
    return LabelSet(
        str(path), examples, labels, domains, classes, class_names, mark, places
    )  # fmt: skip


def _folder_labels(path: Path, index: FolderIndex) -> LabelSet:
    files = zip(index.paths, index.sizes, strict=True)
    return LabelSet(
        str(path), len(index), index.labels, index.domains, len(index.class_names),
        index.class_names, fingerprint(len(index), labels=index.labels, files=files),
        index.domain_names,
    )  # fmt: skip


def _folder_images(path: Path, index: FolderIndex, size: int | None) -> ImageSet:
    images = np.empty(folder_shape(index, size), np.uint8)
    done = 0
    for block in read_images(index, size):
        images[done : done + len(block)] = block
        done += len(block)
    return _with_images(_folder_labels(path, index), images)


def _with_images(known: LabelSet, images: np.ndarray) -> ImageSet:
    mean, std = usual_numbers(images.shape[3])
    return ImageSet(
        known.name, images, known.labels, known.domains, known.classes,
        known.class_names, mean, std, known.fingerprint, known.domain_names,
    )  # fmt: skip


def _without_images(opened: ImageSet) -> LabelSet:
    return LabelSet(
        opened.name, len(opened.images), opened.labels, opened.domains, opened.classes,
        opened.class_names, opened.fingerprint, opened.domain_names,
    )  # fmt: skip


def _resized(opened: ImageSet, size: int | None) -> ImageSet:
    return replace(opened, images=resize_images(opened.images, size))


def _existing(name: str, *more: str) -> Path:
    """The path, if it is of a kind that can be read; else what could have been meant."""
    path = Path(name)
    if path.is_dir() or path.suffix in (".npz", ".safetensors", *more):
        if not path.exists():
            raise InputError(f"{name}: there is no such file")
        return path
    near = difflib.get_close_matches(name.lower(), names(), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"{name}: neither a known dataset ({', '.join(names())}) nor a path to a folder "
        f"of images, an .npz or a packed .safetensors file{hint}"
    )
