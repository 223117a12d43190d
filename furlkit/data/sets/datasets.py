"""Images with labels, and the datasets known by name."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import catalogue
from furlkit.data.sets import digits
from furlkit.data.sets.fingerprint import fingerprint_of, fingerprint_of_reading
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.published import PUBLISHED_SETS
from furlkit.data.sets.torchvision import TORCHVISION_SETS
from furlkit.data.sets.window import AS_STORED, Reading
from furlkit.errors import UsageError

DEFAULT_ROOT = Path("data")
FILED_SETS: dict[str, Any] = {**TORCHVISION_SETS, **PUBLISHED_SETS}
OWN_SETS = ("digits", *FILED_SETS)
SPLITS = ("train", "test")
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True, kw_only=True)
class ImageSet(LabelSet):
    """Images (N, H, W, C) uint8, in memory or memory-mapped, with labels.

    `mean` and `std` normalise values in [0, 1], one number per channel. The fingerprint
    describes the images before any resizing. `reading` holds the window of the pixels.
    """

    images: np.ndarray
    mean: tuple[float, ...]
    std: tuple[float, ...]
    reading: Reading = AS_STORED


def with_images(
    labels: LabelSet, images: np.ndarray, reading: Reading = AS_STORED
) -> ImageSet:
    """Images with default mean and std; the fingerprint names the window."""
    mean, std = default_mean_std(images.shape[3])
    fingerprint = {**labels.fingerprint, **fingerprint_of_reading(reading)}
    labels = replace(labels, fingerprint=fingerprint)
    return ImageSet(**vars(labels), images=images, mean=mean, std=std, reading=reading)


def names() -> tuple[str, ...]:
    """Names of the datasets that need no path."""
    return (*OWN_SETS, *catalogue.datasets(OWN_SETS))


def is_name(text: str) -> bool:
    """Return True for the name of a dataset; furlkit's names need no search."""
    return text in OWN_SETS or text in names()


def default_mean_std(channels: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Default mean and std: ImageNet's, or 0.5 for grey images."""
    if channels == 3:
        return IMAGENET_MEAN, IMAGENET_STD
    return (0.5,) * channels, (0.5,) * channels


def open_named(name: str, split: str, root: Path | None, download: bool) -> ImageSet:
    """Open a dataset of `names()` with files in `root`, by default `data`."""
    if split not in SPLITS:
        raise UsageError(f"split {split}: expected one of {', '.join(SPLITS)}")
    root = root or DEFAULT_ROOT
    labels: np.ndarray | None
    if name == "digits":
        images, labels = digits.read_digits(split)
        class_names, mean, std = digits.CLASSES, digits.MEAN, digits.STD
    else:
        entry: Any = FILED_SETS.get(name) or catalogue.datasets()[name]
        own = name in FILED_SETS
        read = entry.read if own else catalogue.load(entry.function)
        images, labels, class_names = read(split, root, download=download)
        mean, std = entry.mean, entry.std
    fingerprint = fingerprint_of(len(images), images=images, labels=labels)
    label_set = LabelSet(name, len(images), labels, None, class_names, fingerprint)
    return ImageSet(**vars(label_set), images=images, mean=mean, std=std)
