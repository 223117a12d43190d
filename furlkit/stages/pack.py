"""pack: write a dataset to one file that training maps into memory."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet, default_mean_std, is_name
from furlkit.data.sets.fingerprint import fingerprint_of, hash_sample, sample_positions
from furlkit.data.sets.folder import folder_shape, index_folder, read_images
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError
from furlkit.files.dataset import DatasetFacts, write_dataset
from furlkit.files.facts import Provenance
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.runtime import pinned_option

BLOCK = 1024
Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class Options:
    """Several sources become one domain each.

    `domain_folders` reads a folder as domain/class/image.
    """

    sources: tuple[Source, ...]
    output: Path
    channels: int | None
    no_labels: bool
    domain_folders: bool
    isa: str
    dry_run: bool
    recorded: dict[str, Any]


@dataclass(frozen=True)
class Part:
    """One source: its labels in memory, its images on demand."""

    labels: LabelSet
    shape: Shape
    take: Callable[[np.ndarray], np.ndarray]  # the images at the given positions
    blocks: Callable[[], Iterator[np.ndarray]]  # all images, in order


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write the images and labels of one source, or of several as domains."""
    given, sources = dict(values), values["sources"]
    where = {key: given.pop(key) for key in ("data_root", "download", "split")}
    where["size"] = given.pop("image_size")
    known = {
        "sources": tuple(Source(name, **where) for name in sources),
        "channels": int(given["channels"]) if given["channels"] else None,
        "recorded": {**recorded("pack", values), "sources": len(sources)},
    }
    options = fill(Options, {**given, **known})
    check_output(options.output, [source.name for source in options.sources])
    parts = [_open_part(source, options) for source in options.sources]
    shape = _common_shape(options, parts)
    columns, facts = _columns_and_facts(options, parts, shape)
    line = f"{options.output}: {shape[0]:,} images of {' x '.join(map(str, shape[1:]))}"
    if facts.class_names:
        line += f", {len(facts.class_names)} classes"
    if facts.domain_names:
        line += f", {len(facts.domain_names)} domains"
    data: dict[str, Any] = {"shape": list(shape), "fingerprint": facts.fingerprint}
    if not options.dry_run:
        resolved = {**options.recorded, **pinned_option(options.isa)}
        blocks = _blocks_with_progress(parts, shape)
        more = (columns, facts, Provenance("pack", resolved))
        data["content"] = write_dataset(options.output, shape, blocks, *more)
    return line, data


def _columns_and_facts(
    options: Options, parts: list[Part], shape: Shape
) -> tuple[dict[str, np.ndarray], DatasetFacts]:
    """Several sources become one domain each; one keeps its own domains, mean and std."""
    sets = [part.labels for part in parts]
    first, domain_names = sets[0], [one.name for one in sets]
    columns: dict[str, np.ndarray] = {}
    class_names: list[str] = []
    unlabelled = [one.name for one in sets if one.labels is None]
    if not options.no_labels and 0 < len(unlabelled) < len(sets):
        console.warn(f"{unlabelled[0]}: has no labels, so none are packed")
    if not options.no_labels and not unlabelled:
        columns["labels"], class_names = _joined_labels(sets)
    fingerprint = fingerprint_of(shape[0], labels=columns.get("labels"))
    fingerprint["images"] = hash_sample(shape, _sample(parts, shape))
    mean, std = default_mean_std(shape[3])
    if len(parts) > 1:
        sizes = [part.shape[0] for part in parts]
        columns["domains"] = np.repeat(np.arange(len(parts)), sizes)
    else:
        domain_names = list(first.domain_names)
        if first.domains is not None:
            columns["domains"] = first.domains
        # A partition of the folder must still fit the packed file.
        if files := first.fingerprint.get("files"):
            fingerprint["files"] = files
        if isinstance(first, ImageSet) and len(first.mean) == shape[3]:
            mean, std = first.mean, first.std
    facts = DatasetFacts(class_names, domain_names, fingerprint, list(mean), list(std))
    return columns, facts


def _blocks_with_progress(parts: list[Part], shape: Shape) -> Iterator[np.ndarray]:
    done = 0
    with console.bar("packing", shape[0]) as bar:
        for part in parts:
            for block in part.blocks():
                yield np.ascontiguousarray(_with_channels(block, shape[3]))
                done += len(block)
                bar.reach(done)


def _open_part(source: Source, options: Options) -> Part:
    if not is_name(source.name) and Path(source.name).is_dir():
        return _folder_part(source, options)
    if options.domain_folders:
        raise UsageError(f"--domain-folders: {source.name} is not a folder of images")
    opened = source.images()
    images = opened.images

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, len(images), BLOCK):
            yield images[start : start + BLOCK]

    return Part(opened, images.shape, images.__getitem__, blocks)


def _folder_part(source: Source, options: Options) -> Part:
    """A folder is decoded block by block, so that it may be larger than the memory."""
    index = index_folder(Path(source.name), domains=options.domain_folders)
    size, channels = source.size, options.channels or 3

    def take(positions: np.ndarray) -> np.ndarray:
        chosen = replace(index, paths=tuple(index.paths[i] for i in positions))
        return np.concatenate(list(read_images(chosen, size, channels=channels)))

    return Part(
        index.labels,
        folder_shape(index, size, channels),
        take,
        lambda: read_images(index, size, channels=channels),
    )


def _common_shape(options: Options, parts: list[Part]) -> Shape:
    sizes = {part.shape[1:3] for part in parts}
    if len(sizes) > 1:
        raise UsageError(
            f"found images of {sorted(sizes)} pixels, expected one size; "
            "pass --image-size"
        )
    found = max(part.shape[3] for part in parts)
    channels = options.channels or found
    if channels < found:
        raise UsageError("--channels 1: found colour images; convert them or pass 3")
    height, width = sizes.pop()
    return sum(part.shape[0] for part in parts), height, width, channels


def _joined_labels(sources: list[LabelSet]) -> tuple[np.ndarray, list[str]]:
    """Labels of several sources in one numbering, joined by class name.

    Sources with equally many classes and no name in common keep their numbers: they
    name the same classes differently.
    """
    first = sources[0].class_names
    shared = set(first).intersection(*(one.class_names for one in sources))
    same_count = len({one.classes for one in sources}) == 1
    if all(one.class_names == first for one in sources) or (same_count and not shared):
        return np.concatenate([np.asarray(one.labels) for one in sources]), list(first)
    names = sorted(set().union(*(one.class_names for one in sources)))
    number = {name: i for i, name in enumerate(names)}
    renumbered = [
        np.array([number[name] for name in one.class_names])[one.labels]
        for one in sources
    ]
    return np.concatenate(renumbered), names


def _sample(parts: list[Part], shape: Shape) -> Iterator[np.ndarray]:
    """The images that the fingerprint hashes, at positions counted over all parts."""
    positions, start = sample_positions(shape[0]), 0
    for part in parts:
        inside = (positions >= start) & (positions < start + part.shape[0])
        if inside.any():
            taken = part.take(positions[inside] - start)
            yield from _with_channels(taken, shape[3])
        start += part.shape[0]


def _with_channels(images: np.ndarray, channels: int) -> np.ndarray:
    return np.broadcast_to(images, (*images.shape[:3], channels))
