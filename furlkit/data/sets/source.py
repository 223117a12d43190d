"""Open a dataset by name or path, with its images or with labels only.

A name is one of `datasets.names()`. A path is an image folder, an .npz of arrays, or a
packed .safetensors file. A path is one whole set: `split` is not used, pass the path of
the split. For a path, for `digits` and for a label file, torch is imported only if
images must be resized.
"""

import difflib
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.sets.datasets import ImageSet, is_name, names, open_named, with_images
from furlkit.data.sets.fingerprint import label_fingerprint
from furlkit.data.sets.folder import folder_shape, index_folder, read_images
from furlkit.data.sets.labels import (
    LABEL_FILES,
    LabelSet,
    default_names,
    read_label_file,
)
from furlkit.data.sets.npz import read_npz, read_npz_labels
from furlkit.data.sets.resize import resize_images
from furlkit.errors import InputError, UsageError


@dataclass(frozen=True)
class Source:
    """A dataset as given on the command line: a name or path.

    `data_root` is the folder of torchvision's files (default: `data` in the working
    folder). `size` resizes the shorter side of the images and crops the centre.
    """

    data: str | Path
    data_root: Path | None = None
    download: bool = False
    split: str = "train"
    size: int | None = None

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise UsageError(f"--image-size {self.size}: expected at least 1")

    @property
    def name(self) -> str:
        """What the user gave, for messages."""
        return str(self.data)

    def images(self) -> ImageSet:
        """Open the dataset with its images."""
        if is_name(self.name):
            opened = self._named()
        else:
            path = _existing_path(self.name)
            if path.is_dir():
                return _open_folder(path, self.size)
            packed = path.suffix == ".safetensors"
            opened = _open_packed(path) if packed else with_images(*read_npz(path))
        return replace(opened, images=resize_images(opened.images, self.size))

    def labels(self) -> LabelSet:
        """Open the labels without decoding images, which a partition needs.

        Also reads a plain file of labels: .npy, .json or .txt.
        """
        if is_name(self.name):
            return self._named()
        path = _existing_path(self.name, *LABEL_FILES)
        if path.is_dir():
            return index_folder(path).labels
        if path.suffix in LABEL_FILES:
            return read_label_file(path)
        if path.suffix == ".safetensors":
            return _open_packed(path)
        return read_npz_labels(path)

    def _named(self) -> ImageSet:
        return open_named(self.name, self.split, self.data_root, self.download)


def _open_packed(path: Path) -> ImageSet:
    from furlkit.files.dataset import read_dataset

    packed = read_dataset(path)
    facts = packed.facts
    # The images are mapped, not read. Labels are small, so their damage is found here.
    _check_hash(path, packed.labels, "labels", facts.fingerprint)
    if "domains" in facts.fingerprint:  # Older files have no hash of theirs.
        _check_hash(path, packed.domains, "domains", facts.fingerprint)
    return ImageSet(
        name=str(path),
        examples=len(packed.images),
        labels=packed.labels,
        domains=packed.domains,
        class_names=tuple(facts.class_names) or default_names(packed.labels),
        fingerprint=facts.fingerprint,
        domain_names=tuple(facts.domain_names) or default_names(packed.domains),
        images=packed.images,
        mean=tuple(facts.mean),
        std=tuple(facts.std),
    )


def _check_hash(
    path: Path, column: np.ndarray | None, name: str, fingerprint: dict[str, Any]
) -> None:
    found = None if column is None else label_fingerprint(column)
    if fingerprint.get(name) != found:
        raise InputError(
            f"{path}: its {name} do not match the fingerprint in its header; the file "
            "was damaged or edited; copy it again or re-create it with pack"
        )


def _open_folder(path: Path, size: int | None) -> ImageSet:
    index = index_folder(path)
    images = np.empty(folder_shape(index, size), np.uint8)
    done = 0
    for block in read_images(index, size):
        images[done : done + len(block)] = block
        done += len(block)
    return with_images(index.labels, images)


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
