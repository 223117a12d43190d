"""pack: a dataset in one file, which training maps into memory."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from furlkit import console
from furlkit.data.sets.datasets import ImageSet, names, open_labels, usual_numbers
from furlkit.data.sets.fingerprint import fingerprint, hash_sample, sample_positions
from furlkit.data.sets.folder import (
    FolderIndex,
    folder_shape,
    index_folder,
    read_images,
)
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.dataset import DatasetFacts, write_dataset
from furlkit.files.facts import Provenance
from furlkit.inputs.paths import check_output
from furlkit.runtime import pinned_option

BLOCK = 1024


@dataclass(frozen=True)
class Options:
    """Each source is a domain of its own where there are several.

    `domain_folders` reads a folder as domain/class/image.
    """

    sources: tuple[Source, ...]
    output: Path
    channels: int | None = None
    labels: bool = True
    domain_folders: bool = False
    isa: str = "auto"
    dry_run: bool = False


class Part(Protocol):
    """One source: its labels now, its images block by block."""

    known: LabelSet
    shape: tuple[int, int, int, int]
    mean: tuple[float, ...]
    std: tuple[float, ...]

    def take(self, positions: np.ndarray) -> np.ndarray:
        """The images at some positions."""

    def blocks(self) -> Iterator[np.ndarray]:
        """All images, in order."""


def run(options: Options) -> tuple[str, dict[str, Any]]:
    """Write the images and labels of one source, or of several as domains."""
    check_output(options.output, [Path(source.name) for source in options.sources])
    parts = [_part(source, options) for source in options.sources]
    shape = _common_shape(options, parts)
    columns, class_names = _columns(options, parts)
    mark = fingerprint(shape[0], labels=columns.get("labels"))
    mark["images"] = hash_sample(shape, _sample(parts, shape))
    if len(parts) == 1 and parts[0].known.fingerprint.get("files"):
        mark["files"] = parts[0].known.fingerprint["files"]
    domain_names = list(parts[0].known.domain_names)
    if len(parts) > 1:
        domain_names = [part.known.name for part in parts]
    facts = DatasetFacts(
        class_names,
        domain_names,
        mark,
        *map(list, _numbers(parts, shape[3])),
    )
    line = (
        f"{options.output}: {shape[0]:,} images of {shape[1]} x {shape[2]} x {shape[3]}"
    )
    if class_names:
        line += f", {len(class_names)} classes"
    if domain_names:
        line += f", {len(domain_names)} domains"
    data: dict[str, Any] = {"shape": list(shape), "fingerprint": mark}
    if not options.dry_run:
        made = Provenance("pack", _words(options))
        blocks = _told(parts, shape)
        header = write_dataset(
            options.output, shape, lambda: blocks, columns, facts, made
        )
        data["content"] = header.content
    return line, data


def _told(parts: Sequence[Part], shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    done = 0
    with console.bar("packing", shape[0]) as bar:
        for part in parts:
            for block in part.blocks():
                yield np.ascontiguousarray(_coloured(block, shape[3]))
                done += len(block)
                bar.reach(done)


class _Loaded:
    """A source that is in memory or mapped."""

    def __init__(self, images: ImageSet, known: LabelSet):
        self.known, self._images = known, images.images
        self.shape = images.images.shape
        self.mean, self.std = images.mean, images.std

    def take(self, positions: np.ndarray) -> np.ndarray:
        return self._images[positions]

    def blocks(self) -> Iterator[np.ndarray]:
        for start in range(0, len(self._images), BLOCK):
            yield self._images[start : start + BLOCK]


class _Folder:
    """A folder of images, decoded block by block and never whole in memory."""

    def __init__(self, index: FolderIndex, size: int | None, channels: int, known):
        self.known, self._index, self._size = known, index, size
        self.shape = folder_shape(index, size, channels)
        self.mean, self.std = usual_numbers(channels)

    def take(self, positions: np.ndarray) -> np.ndarray:
        paths = tuple(self._index.paths[i] for i in positions)
        chosen = replace(self._index, paths=paths)
        blocks = list(read_images(chosen, self._size, channels=self.shape[3]))
        return np.concatenate(blocks)

    def blocks(self) -> Iterator[np.ndarray]:
        yield from read_images(self._index, self._size, channels=self.shape[3])


def _words(options: Options) -> dict[str, Any]:
    return {
        "sources": len(options.sources),
        "split": options.sources[0].split,
        "image_size": options.sources[0].image_size,
        "channels": options.channels,
        "labels": options.labels,
        "domain_folders": options.domain_folders,
        **pinned_option(options.isa),
    }


def _part(source: Source, options: Options) -> Part:
    if source.name not in names() and Path(source.name).is_dir():
        index = index_folder(Path(source.name), domains=options.domain_folders)
        known = open_labels(source.name, domains=options.domain_folders)
        return _Folder(index, source.image_size, options.channels or 3, known)
    if options.domain_folders:
        raise UsageError(f"--domain-folders: {source.name} is not a folder of images")
    return _Loaded(source.images(), source.labels())


def _common_shape(options: Options, parts: list[Part]) -> tuple[int, int, int, int]:
    sizes = {part.shape[1:3] for part in parts}
    if len(sizes) > 1:
        raise UsageError(
            f"the sources have images of {sorted(sizes)} pixels; give --image-size"
        )
    found = max(part.shape[3] for part in parts)
    channels = options.channels or found
    if channels < found:
        raise UsageError("--channels 1: colour images would lose their colour")
    height, width = sizes.pop()
    return sum(part.shape[0] for part in parts), height, width, channels


def _columns(
    options: Options, parts: list[Part]
) -> tuple[dict[str, np.ndarray], list[str]]:
    columns: dict[str, np.ndarray] = {}
    names: list[str] = []
    bare = [part.known.name for part in parts if part.known.labels is None]
    if options.labels and 0 < len(bare) < len(parts):
        console.warn(f"{bare[0]}: has no labels, so none are packed")
    if options.labels and not bare:
        columns["labels"], names = _joined_labels([part.known for part in parts])
    if len(parts) > 1:
        sizes = [part.shape[0] for part in parts]
        columns["domains"] = np.repeat(np.arange(len(parts)), sizes)
    elif parts[0].known.domains is not None:
        columns["domains"] = parts[0].known.domains
    return columns, names


def _joined_labels(known: list[LabelSet]) -> tuple[np.ndarray, list[str]]:
    """Labels of several sources in one numbering, by the names of the classes."""
    first = known[0].class_names
    shared = set(first).intersection(*(one.class_names for one in known))
    same_count = len({one.classes for one in known}) == 1
    if all(one.class_names == first for one in known) or (same_count and not shared):
        return np.concatenate([_labels(one) for one in known]), list(first)
    names = sorted(set().union(*(one.class_names for one in known)))
    place = {name: number for number, name in enumerate(names)}
    renumbered = [
        np.array([place[name] for name in one.class_names])[_labels(one)]
        for one in known
    ]
    return np.concatenate(renumbered), names


def _labels(known: LabelSet) -> np.ndarray:
    if known.labels is None:
        raise InputError(f"{known.name}: has no labels")
    return known.labels


def _sample(parts: list[Part], shape: tuple[int, ...]) -> Iterator[np.ndarray]:
    positions, start = sample_positions(shape[0]), 0
    for part in parts:
        inside = (positions >= start) & (positions < start + part.shape[0])
        if inside.any():
            taken = part.take(positions[inside] - start)
            yield from _coloured(taken, shape[3])
        start += part.shape[0]


def _coloured(images: np.ndarray, channels: int) -> np.ndarray:
    return np.broadcast_to(images, (*images.shape[:3], channels))


def _numbers(parts: list[Part], channels: int) -> tuple[Sequence[float], ...]:
    """One source keeps its usual mean and spread; several get the general ones."""
    if len(parts) == 1 and len(parts[0].mean) == channels:
        return parts[0].mean, parts[0].std
    return usual_numbers(channels)
