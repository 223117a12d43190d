"""Open a dataset by name or path, with its images or with labels only.

A name is one of `names()`. A path is an image folder, an .npz of arrays, or a packed
.safetensors file. A path is one whole set: `split` is not used, pass the path of the
split. For a path, for `digits` and for a label file, torch is imported only if images
must be resized.
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
from furlkit.data.sets.fingerprint import fingerprint_of, label_fingerprint
from furlkit.data.sets.folder import folder_shape, index_folder, read_images
from furlkit.data.sets.labels import (
    LABEL_FILES,
    LabelSet,
    count_classes,
    number_names,
    read_label_file,
)
from furlkit.data.sets.npz import read_npz, read_npz_labels
from furlkit.data.sets.resize import resize_images
from furlkit.data.sets.torchvision import (
    TORCHVISION_SETS,
    read_torchvision,
)
from furlkit.errors import InputError, UsageError

DEFAULT_ROOT = Path("data")
OWN_SETS = ("digits", *TORCHVISION_SETS)
SPLITS = ("train", "test")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class ImageSet(LabelSet):
    """Images as (N, H, W, C) uint8, in memory or memory-mapped, with their labels.

    `mean` and `std` normalise values in [0, 1], one number per channel. The
    fingerprint is that of the images before any resizing.
    """

    images: np.ndarray
    mean: tuple[float, ...]
    std: tuple[float, ...]


def names() -> tuple[str, ...]:
    """The names of the datasets that need no path."""
    return (*OWN_SETS, *catalogue.datasets(OWN_SETS))


def is_name(text: str) -> bool:
    """Whether a dataset has this name; one of furlkit's own takes no search."""
    return text in OWN_SETS or text in names()


def open_images(
    name_or_path: str | Path,
    split: str = "train",
    *,
    root: Path | None = None,
    download: bool = False,
    image_size: int | None = None,
) -> ImageSet:
    """Open a dataset with its images.

    `root` is the folder of torchvision's files (default: `data` in the working folder).
    `image_size` resizes the shorter side and crops the centre.
    """
    name = str(name_or_path)
    if is_name(name):
        opened = _open_named(name, split, root, download)
    else:
        path = _existing_path(name)
        if path.is_dir():
            return _open_folder(path, image_size)
        packed = path.suffix == ".safetensors"
        opened = _open_packed(path) if packed else _with_images(*read_npz(path))
    return replace(opened, images=resize_images(opened.images, image_size))


def open_labels(
    name_or_path: str | Path,
    split: str = "train",
    *,
    root: Path | None = None,
    download: bool = False,
) -> LabelSet:
    """Open the labels of a dataset without decoding images, which a partition needs.

    Also reads a plain file of labels: .npy, .json or .txt.
    """
    name = str(name_or_path)
    if is_name(name):
        return _open_named(name, split, root, download)
    path = _existing_path(name, *LABEL_FILES)
    if path.is_dir():
        return index_folder(path).labels
    if path.suffix in LABEL_FILES:
        return read_label_file(path)
    if path.suffix == ".safetensors":
        return _open_packed(path)
    return read_npz_labels(path)


def default_mean_std(channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and std for images without known ones: ImageNet's, or 0.5 for grey."""
    if channels == 3:
        return IMAGENET_MEAN, IMAGENET_STD
    return (0.5,) * channels, (0.5,) * channels


def _open_named(name: str, split: str, root: Path | None, download: bool) -> ImageSet:
    if split not in SPLITS:
        raise UsageError(f"split {split}: expected one of {', '.join(SPLITS)}")
    labels: np.ndarray | None
    if name == "digits":
        images, labels = digits.read_digits(split)
        class_names, mean, std = digits.CLASSES, digits.MEAN, digits.STD
    else:
        root = DEFAULT_ROOT if root is None else Path(root)
        known: Any = TORCHVISION_SETS.get(name) or catalogue.datasets()[name]
        if name in TORCHVISION_SETS:
            read: Callable[..., Any] = partial(read_torchvision, name)
        else:
            read = catalogue.load(known.function)
        images, labels, class_names = read(split, root, download=download)
        mean, std = known.mean, known.std
    fingerprint = fingerprint_of(len(images), images=images, labels=labels)
    label_set = LabelSet(name, len(images), labels, None, class_names, fingerprint)
    return ImageSet(**vars(label_set), images=images, mean=mean, std=std)


def _open_packed(path: Path) -> ImageSet:
    from furlkit.files.dataset import read_dataset

    packed = read_dataset(path)
    facts = packed.facts
    # The images are mapped, not read. Labels are small, so their damage is found here.
    found = None if packed.labels is None else label_fingerprint(packed.labels)
    if facts.fingerprint.get("labels") != found:
        raise InputError(
            f"{path}: its labels do not match the fingerprint in its header; the file "
            "was damaged or edited; copy it again or re-create it with pack"
        )
    return ImageSet(
        name=str(path),
        examples=len(packed.images),
        labels=packed.labels,
        domains=packed.domains,
        class_names=tuple(facts.class_names)
        or number_names(count_classes(packed.labels)),
        fingerprint=facts.fingerprint,
        domain_names=tuple(facts.domain_names),
        images=packed.images,
        mean=tuple(facts.mean),
        std=tuple(facts.std),
    )


def _open_folder(path: Path, size: int | None) -> ImageSet:
    index = index_folder(path)
    images = np.empty(folder_shape(index, size), np.uint8)
    done = 0
    for block in read_images(index, size):
        images[done : done + len(block)] = block
        done += len(block)
    return _with_images(index.labels, images)


def _with_images(labels: LabelSet, images: np.ndarray) -> ImageSet:
    mean, std = default_mean_std(images.shape[3])
    return ImageSet(**vars(labels), images=images, mean=mean, std=std)


def _existing_path(name: str, *more_suffixes: str) -> Path:
    """The path if it is of a kind that can be read; a UsageError with a hint if not."""
    path = Path(name)
    if path.is_dir() or path.suffix in (".npz", ".safetensors", *more_suffixes):
        if not path.exists():
            raise InputError(f"{name}: no such file")
        return path
    near = difflib.get_close_matches(name.lower(), names(), 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise UsageError(
        f"{name}: neither a known dataset ({', '.join(names())}) nor a path to a folder "
        f"of images, an .npz or a packed .safetensors file{hint}"
    )
