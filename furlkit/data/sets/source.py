"""Open a dataset by name or path, with images or with labels only.

A name is one of `datasets.names()`. A path is an image folder, an .npz of arrays, idx
files, or a packed dataset. A path is a whole set without `split`, except a folder of
idx files, which has splits like a named dataset. Tar, Parquet and Arrow files must be
packed first. For a path, for `digits` and for a label file, torch is imported only if
images must be resized.
"""

import os
from dataclasses import dataclass, replace
from pathlib import Path

from furlkit import console
from furlkit.data.sets.datasets import ImageSet, is_name, names, open_named, with_images
from furlkit.data.sets.decoded import Fit, folder_images
from furlkit.data.sets.fingerprint import READING, label_fingerprint
from furlkit.data.sets.folder import index_folder, state_of
from furlkit.data.sets.groups import L, with_groups
from furlkit.data.sets.idx import ENDINGS, GZIP, IMAGES, idx_file, idx_splits, read_idx
from furlkit.data.sets.labels import (
    LABEL_FILES,
    LabelSet,
    default_names,
    read_label_file,
)
from furlkit.data.sets.npz import npz_has_splits, read_npz, read_npz_labels
from furlkit.data.sets.resize import resize_images
from furlkit.data.sets.shard import find_shards
from furlkit.data.sets.window import AS_STORED, Reading
from furlkit.errors import InputError, UsageError, did_you_mean
from furlkit.files.cache import open_cache, read_note, write_note
from furlkit.files.opening import open_regular, reading

ANY = Fit()


@dataclass(frozen=True)
class Source:
    """A dataset given on the command line: a name or path.

    `data_root` is the folder of torchvision's files (default: `data` in the working
    folder). `size` resizes the shorter side of the images and crops the centre. `cache`
    stores the decoded images of a folder (default: the user's cache folder). `reading`
    converts the values in image files and .npz files to pixels.
    """

    data: str | Path
    data_root: Path | None = None
    download: bool = False
    split: str = "train"
    size: int | None = None
    cache: Path | None = None
    reading: Reading = AS_STORED

    def __post_init__(self) -> None:
        if self.size is not None and self.size < 1:
            raise UsageError(f"--image-size {self.size}: expected at least 1")

    @property
    def name(self) -> str:
        """User's input, for messages."""
        return str(self.data)

    @property
    def is_folder(self) -> bool:
        """True for a folder of images, which may have any size."""
        path = Path(self.name)
        if is_name(self.name) or not path.is_dir():
            return False
        return not idx_splits(path) and not self.shards

    @property
    def shards(self) -> tuple[Path, ...]:
        """Tar, Parquet or Arrow files, to be packed first; () for other data."""
        return () if is_name(self.name) else find_shards(self.name)

    @property
    def has_splits(self) -> bool:
        """True if `split` chooses a part of the dataset."""
        path = Path(self.name)
        return is_name(self.name) or bool(idx_splits(path)) or npz_has_splits(path)

    def images(self, fit: Fit = ANY, again: bool = False) -> ImageSet:
        """Open the dataset with images; `fit` applies to folders.

        The checksum of a packed file is compared once, or `again` with every call.
        """
        if is_name(self.name):
            opened = self._named()
        elif self.is_folder:
            return self._folder(fit)
        else:
            path, kind = _path_and_kind(self.name)
            if kind == "packed":
                opened = _open_packed(path)
                self._verify(path, again)
            elif kind == "idx":
                opened = self._idx(path)
            else:
                opened = with_images(*read_npz(path, self.reading, self._arrays(path)))
        return replace(opened, images=resize_images(opened.images, self.size))

    def verify(self) -> None:
        """Read a packed file completely and compare the checksum; refuse other data."""
        kind = None
        if not is_name(self.name) and not self.is_folder:
            path, kind = _path_and_kind(self.name, *LABEL_FILES)
        if kind != "packed":
            raise UsageError(
                f"--verify: {self.name} is not a packed file; pack it first"
            )
        self._verify(path, again=True)

    def labels(self) -> LabelSet:
        """Open the labels for a partition, without decoding images.

        Also reads a plain file of labels: .npy, .json or .txt.
        """
        if is_name(self.name):
            return self._named()
        if self.is_folder:
            return index_folder(Path(self.name)).labels
        path, kind = _path_and_kind(self.name, *LABEL_FILES)
        if kind == "packed":
            return _open_packed(path)
        if kind == "idx":
            return self._idx(path)
        if kind == "npz":
            return read_npz_labels(path, self._arrays(path))
        return read_label_file(path)

    def with_groups(self, data: L, groups: str | None) -> L:
        """The dataset with the groups of --groups, or the groups that were packed."""
        paths = None
        if groups and self.is_folder:
            paths = index_folder(Path(self.name)).paths
        return with_groups(data, groups, paths)

    def _folder(self, fit: Fit) -> ImageSet:
        if self.size is not None:
            fit = fit._replace(size=self.size, exact=True)
        index, fit = index_folder(Path(self.name)), fit._replace(reading=self.reading)
        if self.reading.several:  # Only pack makes several images of a file.
            fit = fit._replace(reading=replace(self.reading, pages=None, slices=None))
        images, reading = folder_images(index, fit, open_cache(self.cache))
        return with_images(index.labels, images, reading)

    def _arrays(self, path: Path) -> str:
        """Split of the arrays to read; empty for a file without splits."""
        return self.split if npz_has_splits(path) else ""

    def _idx(self, path: Path) -> ImageSet:
        return with_images(*read_idx(idx_file(path, self.split), self.name))

    def _verify(self, path: Path, again: bool) -> None:
        from furlkit.files.container.read import Container

        cache, opened = open_cache(self.cache), Container(path)
        name = f"packed-{state_of([os.stat(path)])[:40]}"
        if read_note(cache, name).get("content") == opened.content and not again:
            return
        with console.bar(f"verifying {path.name}", opened.size) as bar:
            opened.check_body(bar.reach)
        write_note(cache, name, {"content": opened.content})

    def _named(self) -> ImageSet:
        return open_named(self.name, self.split, self.data_root, self.download)


def _open_packed(path: Path) -> ImageSet:
    from furlkit.files.dataset import read_dataset

    packed = read_dataset(path)
    facts = packed.facts
    # The images are mapped, not read. Labels are small: check them here.
    for name, column in (("labels", packed.labels), ("domains", packed.domains)):
        if name == "domains" and name not in facts.fingerprint:
            continue  # Older files have no hash of domains.
        found = None if column is None else label_fingerprint(column)
        if facts.fingerprint.get(name) != found:
            raise InputError(
                f"{path}: the {name} do not match the fingerprint in the header; the "
                "file was damaged or edited; copy it again or re-create it with pack"
            )
    known = {k: facts.fingerprint[k] for k in READING if k in facts.fingerprint}
    known["depth"] = 8 * packed.images.dtype.itemsize
    return ImageSet(
        name=str(path),
        examples=len(packed.images),
        labels=packed.labels,
        domains=packed.domains,
        groups=packed.groups,
        class_names=tuple(facts.class_names) or default_names(packed.labels),
        fingerprint=facts.fingerprint,
        domain_names=tuple(facts.domain_names) or default_names(packed.domains),
        images=packed.images,
        mean=tuple(facts.mean),
        std=tuple(facts.std),
        reading=Reading.from_facts(known, path),
    )


def _path_and_kind(name: str, *more_suffixes: str) -> tuple[Path, str]:
    """Path and kind: packed, npz, idx, or labels if `more_suffixes` are allowed.

    The content determines the kind of a file. For text and damaged files the suffix
    decides. Anything else is a UsageError with a hint.
    """
    path = Path(name)
    if idx_splits(path):
        return path, "idx"
    if find_shards(name):
        raise UsageError(
            f"{name}: pack it first: furlkit pack '{name}' -o packed.safetensors"
        )
    if path.is_file() and (kind := _kind_by_content(path, bool(more_suffixes))):
        return path, kind
    meant = {".npz": "npz", ".safetensors": "packed"}
    if path.suffix in (*meant, *more_suffixes):
        if not path.exists():
            raise InputError(f"{name}: no such file")
        return path, meant.get(path.suffix, "labels")
    if path.name.endswith(ENDINGS):
        return path, "idx"
    raise UsageError(
        f"{name}: neither a known dataset ({', '.join(names())}) nor a path to a folder "
        f"of images, an .npz, an idx or a packed .safetensors file"
        f"{did_you_mean(name, names())}"
    )


def _kind_by_content(path: Path, labels: bool) -> str | None:
    with open_regular(path) as stream, reading(path):
        start = stream.read(9)
    if start.startswith(b"PK\x03\x04"):
        return "npz"
    # The header is JSON and below 4 GB.
    if start[4:] == b"\0\0\0\0{":
        return "packed"
    if start.startswith((GZIP, IMAGES)):
        return "idx"
    return "labels" if labels and start.startswith(b"\x93NUMPY") else None
