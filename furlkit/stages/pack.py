"""pack: write a dataset to a single file that training maps into memory."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from os.path import realpath
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import recorded
from furlkit.data.sets.checked import broken_images, checked_folder
from furlkit.data.sets.datasets import ImageSet, default_mean_std, is_name
from furlkit.data.sets.decode import count_pages
from furlkit.data.sets.fingerprint import (
    READING,
    fingerprint_of,
    fingerprint_of_reading,
    hash_sample,
    sample_positions,
)
from furlkit.data.sets.folder import (
    FolderIndex,
    folder_shape,
    index_folder,
    read_images,
)
from furlkit.data.sets.groups import FOLDER, recorded_groups, with_groups
from furlkit.data.sets.join import joined, joined_by_number, missing_classes
from furlkit.data.sets.labels import LabelSet
from furlkit.data.sets.ranges import survey
from furlkit.data.sets.resize import resize_images
from furlkit.data.sets.shard import TABLES
from furlkit.data.sets.sharded import index_shards
from furlkit.data.sets.source import Source
from furlkit.data.sets.split import drawn_positions, train_positions
from furlkit.data.sets.window import AS_STORED, MOST_PAGES, Reading, deepened
from furlkit.errors import InputError, UsageError
from furlkit.files.dataset import DatasetFacts, write_dataset
from furlkit.files.facts import Provenance
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.randomness import numpy_generator
from furlkit.runtime import pinned_option

BLOCK = 1024
Shape = tuple[int, int, int, int]


@dataclass(frozen=True)
class PackOptions:
    """With several sources, every source becomes a domain.

    `domain_folders` reads a folder with the layout domain/class/image. `train_fraction`
    splits paths without splits, and `images` limits the images of each source; both
    draw from `seed`.
    """

    sources: tuple[Source, ...]
    output: Path
    channels: int | None
    no_labels: bool
    skip_broken: bool
    domain_folders: bool
    domain_names: str | None
    groups: str | None
    train_fraction: float | None
    images: int | None
    seed: int | None
    isa: str
    dry_run: bool
    recorded: dict[str, Any]

    @property
    def drawn_from(self) -> int | None:
        """Seed of the splits and images, if any are drawn."""
        draws = self.train_fraction is not None or self.images is not None
        return self.seed or 0 if draws else None


@dataclass(frozen=True)
class Part:
    """A source: labels in memory, images on demand; `found` is the images' size."""

    labels: LabelSet
    shape: Shape
    found: str
    reading: Reading
    take: Callable[[np.ndarray], np.ndarray]  # Images at the given positions.
    blocks: Callable[[], Iterator[np.ndarray]]  # All images, in order.


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write images and labels of a source, or of several sources (domains)."""
    given, sources = dict(values), values["sources"]
    places = ("data_root", "download", "cache", "split")
    where = {key: given.pop(key) for key in places}
    where["size"] = given.pop("image_size")
    where["reading"] = Reading(**{k: given.pop(k) for k in (*READING, "depth")})
    known = {
        "sources": tuple(Source(name, **where) for name in sources),
        "recorded": {**_recorded(values), "sources": len(sources)},
    }
    options = fill(PackOptions, {**given, **known})
    check_output(options.output, [source.name for source in options.sources])
    _check_splits(options)
    if options.seed is not None and options.drawn_from is None:
        raise UsageError("--seed does not apply without --train-fraction or --images")
    parts = [_open_part(source, options) for source in options.sources]
    shape = _common_shape(options, parts)
    columns, facts = _columns_and_facts(options, parts, shape)
    line = f"{options.output}: {shape[0]:,} images of {_by(shape[1:])}"
    if facts.class_names:
        line += f", {len(facts.class_names)} classes"
    if facts.domain_names:
        line += f", {len(facts.domain_names)} domains"
    data: dict[str, Any] = {"shape": list(shape), "fingerprint": facts.fingerprint}
    if not options.dry_run:
        resolved = {**options.recorded, **pinned_option(options.isa)}
        blocks = _blocks_with_progress(parts, shape)
        more = (columns, facts, Provenance("pack", resolved, options.drawn_from))
        kind = options.sources[0].reading.dtype
        data["content"] = write_dataset(options.output, shape, blocks, *more, kind)
    return line, data


def _recorded(values: dict[str, Any]) -> dict[str, Any]:
    """Options for the header; older versions record channels in text form."""
    options = recorded("pack", values) | recorded_groups(values["groups"])
    return options | {k: str(options[k]) for k in ("channels",) if k in options}


def _check_splits(options: PackOptions) -> None:
    """Refuse --split and --train-fraction for sources to which they do not apply."""
    if options.groups not in (None, FOLDER) and len(options.sources) > 1:
        raise UsageError(f"--groups {options.groups}: expected one source, or `folder`")
    paths = [one for one in options.sources if not one.has_splits]
    if options.train_fraction is not None and not paths:
        raise UsageError(
            f"--train-fraction: {options.sources[0].name} already has splits; choose "
            "with --split"
        )
    if options.train_fraction is None and paths and paths[0].split != "train":
        raise UsageError(
            f"--split {paths[0].split}: {paths[0].name} has no splits; give the path "
            "of the split, or divide the images with --train-fraction"
        )


def _columns_and_facts(
    options: PackOptions, parts: list[Part], shape: Shape
) -> tuple[dict[str, np.ndarray], DatasetFacts]:
    """Columns and facts beside the images; a single source keeps mean and std."""
    data, first = _together(options, [part.labels for part in parts]), parts[0].labels
    columns = {"labels": data.labels, "domains": data.domains}
    fingerprint = fingerprint_of(shape[0], **columns)
    columns["groups"] = data.groups
    fingerprint["images"] = hash_sample(shape, _sample(parts, shape))
    fingerprint |= fingerprint_of_reading(_common_reading(parts))
    mean, std = default_mean_std(shape[3])
    if len(parts) == 1:
        # A partition of the folder must also fit the packed file.
        if files := first.fingerprint.get("files"):
            fingerprint["files"] = files
        if isinstance(first, ImageSet) and len(first.mean) == shape[3]:
            mean, std = first.mean, first.std
    facts = DatasetFacts(
        list(data.class_names), list(data.domain_names), fingerprint, [*mean], [*std]
    )
    return {k: v for k, v in columns.items() if v is not None}, facts


def _common_reading(parts: list[Part]) -> Reading:
    """Return the reading common to the sources; 8-bit images fit any window."""
    readings = {replace(part.reading, depth=8): part for part in parts}
    found = {reading: part for reading, part in readings.items() if reading.facts()}
    if len(found) > 1:
        names = [f"{p.labels.name} (--window {r.window})" for r, p in found.items()]
        raise InputError(
            f"{' and '.join(names)}: have different windows; pack the original files "
            "with one --window"
        )
    return next(iter(found), AS_STORED)


def _together(options: PackOptions, sets: list[LabelSet]) -> LabelSet:
    """Combine labels and domains; with several sources, every source is a domain."""
    data = sets[0]
    if len(sets) > 1:
        data = joined(sets, [_own_name(one.name) for one in sets])
        _warn_of_joining(options, sets)
    if options.no_labels or data.labels is None:
        data = replace(data, labels=None, class_names=())
    if options.domain_names is not None:
        data = replace(data, domain_names=_given_names(options.domain_names, data))
    _check_names(data.domain_names)
    for domain, lacking in missing_classes(data).items():
        some = ", ".join(lacking[:3]) + (", ..." if len(lacking) > 3 else "")
        console.warn(
            f"{domain}: has no images of {len(lacking)} of {data.classes} classes ({some})"
        )
    return data


def _own_name(source: str) -> str:
    """Name of a dataset, or of a folder or file without the path."""
    path = Path(realpath(source))
    if is_name(source):
        return source
    return path.name if path.is_dir() else path.stem


def _given_names(text: str, data: LabelSet) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != len(data.domain_names) or not all(names):
        raise UsageError(
            f"--domain-names {text}: found {len(data.domain_names)} domains in "
            f"{data.name}, expected a name for each, with commas between"
        )
    return names


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(
                f"two domains are called {name}; give every domain a different name "
                "with --domain-names"
            )


def _warn_of_joining(options: PackOptions, sets: list[LabelSet]) -> None:
    """Warn about information that is lost or merged by joining sources."""
    if sum(bool(source.shards) for source in options.sources) > 1:
        console.warn(
            f"{sets[0].name} and the other sources become separate domains; to make "
            "one dataset of shards, quote a pattern: 'shards-*.tar'"
        )
    for one in sets:
        if one.domains is not None:
            console.warn(
                f"{one.name}: {len(one.domain_names)} domains become a single domain, "
                "because every source is a domain"
            )
    if options.no_labels:
        return
    unlabelled = [one.name for one in sets if one.labels is None]
    if 0 < len(unlabelled) < len(sets):
        console.warn(f"{unlabelled[0]}: has no labels; labels are not packed")
    elif not unlabelled and joined_by_number(sets):
        one = sets[0]
        other = next(each for each in sets if each.class_names != one.class_names)
        console.warn(
            f"{one.name} and {other.name} name their {one.classes} classes differently "
            f"({one.class_names[0]}, {other.class_names[0]}); classes are matched by "
            "number"
        )


def _blocks_with_progress(parts: list[Part], shape: Shape) -> Iterator[np.ndarray]:
    done = 0
    with console.bar("packing", shape[0]) as bar:
        for part in parts:
            for block in part.blocks():
                block = _with_channels(block, shape[3])
                yield np.ascontiguousarray(deepened(block, part.reading))
                done += len(block)
                bar.reach(done)


def _open_part(source: Source, options: PackOptions) -> Part:
    if source.is_folder or source.shards:
        return _folder_part(source, options)
    if options.domain_folders:
        raise UsageError(f"--domain-folders: {source.name} is not a folder of images")
    opened = replace(source, size=None).images()
    opened = with_groups(opened, options.groups, None)
    if opened.images.dtype.itemsize > source.reading.dtype.itemsize:
        raise InputError(f"{source.name}: has images of 16 bits; give --depth 16")
    images = resize_images(opened.images, source.size)
    chosen = _chosen(opened, source, options)

    def take(positions: np.ndarray) -> np.ndarray:
        return images[positions if chosen is None else chosen[positions]]

    def blocks() -> Iterator[np.ndarray]:
        for start in range(0, labels.examples, BLOCK):
            end = min(start + BLOCK, labels.examples)
            # Without a choice, a block of a memory map is not copied.
            yield images[start:end] if chosen is None else take(np.arange(start, end))

    labels = opened if chosen is None else opened.subset(chosen)
    shape = (labels.examples, *images.shape[1:])
    found = _by(opened.images.shape[1:])
    reading = replace(opened.reading, depth=source.reading.depth)
    return Part(labels, shape, found, reading, take, blocks)


def _folder_part(source: Source, options: PackOptions) -> Part:
    """Open a folder, decoded block by block: a folder may be larger than the memory."""
    if options.domain_folders and source.shards:
        raise UsageError(f"--domain-folders: {source.name} is not a folder of images")
    if options.domain_folders and len(options.sources) > 1:
        raise UsageError(
            "--domain-folders: expected one folder, because several sources become "
            "separate domains"
        )
    index = _index(source, options)
    rows = any(path.suffix in TABLES for path in source.shards)
    paths = None if rows else index.paths
    labels = with_groups(index.labels, options.groups, paths)
    index, size = replace(index, labels=labels), source.size
    chosen = _chosen(index.labels, source, options)
    if chosen is not None:
        index = index.at(chosen)
    found = survey(
        index.root, index.paths, source.reading, options.channels, index.read
    )
    how: dict[str, Any] = {"channels": found.channels, "reading": found.reading}
    only_grey = options.channels is None and found.channels == 1
    if source.reading.several:
        index = _each_page(index, source.reading)

    def take(positions: np.ndarray) -> np.ndarray:
        some = read_images(index.at(positions), size, only_grey=only_grey, **how)
        return np.concatenate(list(some))

    shape = folder_shape(index, size, **how)
    before = _by(shape[1:]) if size is None else "any size"
    return Part(
        index.labels, shape, before, found.reading, take,
        lambda: read_images(index, size, only_grey=only_grey, **how),
    )  # fmt: skip


def _each_page(index: FolderIndex, reading: Reading) -> FolderIndex:
    """Make an image of every page of every file, with the label of the file."""
    paths = (index.root / name for name in index.paths)
    counts = [count_pages(path, reading, index.read) for path in paths]
    if max(counts) > MOST_PAGES:
        name = index.paths[counts.index(max(counts))]
        raise InputError(
            f"{index.root / name}: has more than {MOST_PAGES:,} pages; divide the file"
        )
    files = np.repeat(np.arange(len(index)), counts)
    pages = tuple(page for count in counts for page in range(count))
    return replace(index.at(files), pages=pages)


def _index(source: Source, options: PackOptions) -> FolderIndex:
    """Index a folder or shards; with --skip-broken only readable images."""
    if source.shards:
        index = index_shards(source.name, source.shards, not options.no_labels)
        return _readable(index) if options.skip_broken else index
    return _index_folder(Path(source.name), options)


def _readable(index: FolderIndex) -> FolderIndex:
    """Keep the readable images of shards."""
    broken = broken_images(index)
    if not broken:
        return index
    console.warn(
        f"{index.root}: left out {len(broken):,} images that cannot be read, for "
        f"example {min(broken)}"
    )
    kept = np.array([i for i, name in enumerate(index.paths) if name not in broken])
    if not len(kept):
        raise InputError(f"{index.root}: found no image that can be read")
    return index.at(kept)


def _index_folder(root: Path, options: PackOptions) -> FolderIndex:
    index = partial(
        index_folder, domains=options.domain_folders, labelled=not options.no_labels
    )
    if not options.skip_broken:
        return index(root)
    broken = checked_folder(root).broken
    if broken:
        console.warn(
            f"{root}: left out {len(broken):,} files that cannot be read, for example "
            f"{min(broken)}; furlkit check lists these files"
        )
    return index(root, without=broken)


def _chosen(data: LabelSet, source: Source, options: PackOptions) -> np.ndarray | None:
    """Positions of the images to pack; None for all images."""
    split = _positions_of_split(data, source, options)
    if options.images is None:
        return split
    positions = np.arange(data.examples) if split is None else split
    rng = numpy_generator(options.drawn_from or 0, "pack", "images")
    return drawn_positions(source.name, positions, options.images, rng)


def _positions_of_split(
    data: LabelSet, source: Source, options: PackOptions
) -> np.ndarray | None:
    """Positions of the chosen split of a path; None for all images."""
    if options.train_fraction is None or source.has_splits:
        return None
    rng = numpy_generator(options.drawn_from or 0, "pack", "split")
    train = train_positions(data, options.train_fraction, rng)
    chosen = np.flatnonzero(train == (source.split == "train"))
    if not len(chosen):
        raise UsageError(
            f"--train-fraction {options.train_fraction:g}: leaves no images of "
            f"{source.name} to {source.split}"
        )
    return chosen


def _common_shape(options: PackOptions, parts: list[Part]) -> Shape:
    sizes = {part.shape[1:3] for part in parts}
    if len(sizes) > 1:
        raise UsageError(
            f"found images of {sorted(sizes)} pixels, expected one size; "
            "pass --image-size"
        )
    found = max(part.shape[3] for part in parts)
    channels = options.channels or found
    if any(p.shape[3] != channels and (p.shape[3], channels) != (1, 3) for p in parts):
        raise UsageError(
            f"--channels {channels}: found images of {found} channels; pass {found}"
        )
    shape = (*sizes.pop(), channels)
    changed = [f"{p.labels.name} ({p.found})" for p in parts if p.found != _by(shape)]
    if changed:
        console.info(f"{', '.join(changed)}: brought to {_by(shape)}")
    return sum(part.shape[0] for part in parts), *shape


def _by(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def _sample(parts: list[Part], shape: Shape) -> Iterator[np.ndarray]:
    """Images for the fingerprint, at positions counted over the parts."""
    positions, start = sample_positions(shape[0]), 0
    for part in parts:
        inside = (positions >= start) & (positions < start + part.shape[0])
        if inside.any():
            taken = deepened(part.take(positions[inside] - start), part.reading)
            yield from _with_channels(taken, shape[3])
        start += part.shape[0]


def _with_channels(images: np.ndarray, channels: int) -> np.ndarray:
    return np.broadcast_to(images, (*images.shape[:3], channels))
