"""Datasets without a download, in their published folders.

mini-imagenet/train.csv, val.csv, test.csv      Mini-ImageNet: the lists of Ravi and
mini-imagenet/images/n0153282900000005.jpg      Larochelle, and 84 x 84 pixels
COVID-19_Radiography_Dataset/COVID/images/      COVID-19 radiography database (Chowdhury
    Lung_Opacity, Normal, Viral Pneumonia       et al. 2020): 299 x 299 grey pixels

The lists, with columns filename,label, are those of
https://github.com/twitter-research/meta-learning-lstm/tree/master/data/miniImagenet.
The x-rays are those of kaggle.com/datasets/tawsifurrahman/covid19-radiography-database
after its second update: COVID-1.png and 3,615 more, 6,012 of Lung_Opacity, 10,192 of
Normal and 1,345 of Viral Pneumonia. Names and numbers were compared with public
programs that read both datasets, not with the files themselves.

Neither has a split of its own in which all classes are to train and to test: the lists
of Mini-ImageNet divide its classes, for learning from few examples. Here every sixth
image of a class of Mini-ImageNet (10,000 of 60,000) is to test, and every fifth x-ray.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit.data.sets.folder import ENDINGS, FolderIndex, folder_shape, read_images
from furlkit.data.sets.labels import LabelSet, number_by_name
from furlkit.errors import InputError, UsageError

# Paths of images below a folder, and the class of each, by name.
Listed = tuple[list[str], list[str]]
Names = tuple[str, ...]
MINI_LISTS = ("train.csv", "val.csv", "test.csv")
COVID_CLASSES = ("COVID", "Lung_Opacity", "Normal", "Viral Pneumonia")


class PublishedSet(NamedTuple):
    """A dataset in a folder below --data-root, and the function that lists the images.

    Every `test_every`th image of a class, in the order of the list, is a test image.
    """

    name: str
    folder: str
    listed: Callable[[Path], Listed]
    test_every: int
    side: int
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def read(
        self, split: str, root: Path, *, download: bool
    ) -> tuple[np.ndarray, np.ndarray, Names]:
        """Images (N, H, W, C) uint8, labels and class names."""
        folder = root / self.folder
        if download and not folder.exists():
            raise UsageError(
                f"{self.name}: has no --download; copy the published files to {folder}"
            )
        paths, names = self.listed(folder)
        class_names, labels = number_by_name(names)
        chosen = in_split(labels, self.test_every, split)
        if not len(chosen):
            raise InputError(
                f"{folder}: {self.name} has no image for the split {split}, which takes "
                f"every {self.test_every}th of a class"
            )
        kept = tuple(paths[i] for i in chosen)
        images = self._images(folder, kept, labels[chosen], class_names)
        return images, labels[chosen], class_names

    def _images(
        self, folder: Path, paths: Names, labels: np.ndarray, class_names: Names
    ) -> np.ndarray:
        about = LabelSet(self.name, len(paths), labels, None, class_names, {})
        index, channels = FolderIndex(folder, paths, about, ""), len(self.mean)
        shape = folder_shape(index, None, channels)
        if shape[1:3] != (self.side, self.side):
            raise InputError(
                f"{folder / paths[0]}: found {shape[2]} x {shape[1]} pixels, expected "
                f"{self.side} x {self.side} for {self.name}"
            )
        images, done = np.empty(shape, np.uint8), 0
        for block in read_images(index, None, channels=channels):
            images[done : done + len(block)] = block
            done += len(block)
        return images


def in_split(labels: np.ndarray, test_every: int, split: str) -> np.ndarray:
    """Positions of a split's images: every nth image of each class is a test image."""
    order = np.argsort(labels, kind="stable")
    sizes = np.bincount(labels)
    rank = np.empty(len(labels), np.int64)  # within the class
    rank[order] = np.arange(len(labels)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    tested = rank % test_every == test_every - 1
    return np.flatnonzero(tested if split == "test" else ~tested)


def list_mini_imagenet(folder: Path) -> Listed:
    """Images of all three lists, in order."""
    rows = [row for name in MINI_LISTS for row in _rows(folder / name)]
    return [f"images/{row['filename']}" for row in rows], [row["label"] for row in rows]


def _rows(path: Path) -> list[dict[str, str]]:
    try:
        with open(path, newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(
            f"{path}: cannot be read ({reason}); expected a folder with "
            f"{', '.join(MINI_LISTS)} and images, below --data-root"
        ) from error
    if not rows or not all(row.get("filename") and row.get("label") for row in rows):
        raise InputError(f"{path}: expected lines of the columns filename,label")
    for row in rows:
        if Path(row["filename"]).name != row["filename"]:
            raise InputError(f"{path}: found {row['filename']!r}, expected a file name")
    return rows


def list_covid(folder: Path) -> Listed:
    """X-rays of each class, by name; masks are left out."""
    paths, names = [], []
    for class_name in COVID_CLASSES:
        images = folder / class_name / "images"
        try:
            files = [f.name for f in images.iterdir() if f.suffix.lower() in ENDINGS]
        except OSError as error:
            raise InputError(
                f"{images}: cannot be read ({error.strerror}); expected the folders "
                f"{', '.join(COVID_CLASSES)}, each with a folder images, in "
                f"{folder.name} below --data-root"
            ) from error
        if not files:
            raise InputError(f"{images}: found no images")
        paths += [f"{class_name}/images/{name}" for name in sorted(files)]
        names += [class_name] * len(files)
    return paths, names


_SETS = (
    PublishedSet(
        "mini-imagenet", "mini-imagenet", list_mini_imagenet, 6, 84,
        (0.485, 0.456, 0.406), (0.229, 0.224, 0.225),
    ),
    PublishedSet(
        "covid-xray", "COVID-19_Radiography_Dataset", list_covid, 5, 299, (0.5,), (0.5,)
    ),
)  # fmt: skip
PUBLISHED_SETS = {entry.name: entry for entry in _SETS}
