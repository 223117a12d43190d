"""The only place that decodes a folder of images to an array.

Every file is read once, hashed and decoded, and the cache stores the array under the
hash of all files. The file system's facts about the files (numbers, sizes and times)
tell the next command if the files are unchanged.
"""

import hashlib
import os
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from furlkit import console
from furlkit.data.sets.datasets import default_mean_std
from furlkit.data.sets.folder import (
    BLOCK,
    FolderIndex,
    in_blocks,
    other_size,
    size_range,
)
from furlkit.data.sets.ranges import FEW, SAMPLE, survey
from furlkit.data.sets.window import AS_STORED, NeedsWindow, Reading
from furlkit.errors import DiskError, FurlkitError
from furlkit.files import cache as caching
from furlkit.files.dataset import DatasetFacts, read_dataset, write_dataset
from furlkit.files.facts import Provenance

DECODER = 3  # To be raised when the same files give other pixels.
# Images of one size keep it, unless all together would take more than this.
MOST_BYTES = 16 * 2**30
BLOCK_BYTES = 2**28


class Fit(NamedTuple):
    """Requested size and channels of images, and the reading of values.

    Images of one size keep the size, unless `exact`; images of different sizes are
    resized to `size`, or refused without `size`.
    """

    size: int | None = None
    channels: int = 3
    exact: bool = False
    reading: Reading = AS_STORED


@dataclass(frozen=True)
class About:
    """Facts found by decoding: a hash of all files, sizes, the number of grey images.

    `size` is the common width and height, None if sizes differ.
    """

    content: str
    size: tuple[int, int] | None
    sizes: str
    grey: int

    def side(self, fit: Fit, examples: int) -> int | None:
        """Target size of the images; None to keep the common size."""
        return None if _keeps(self.size, fit, examples) else fit.size


Found = tuple[np.ndarray, About]


def folder_images(
    index: FolderIndex, fit: Fit, cache: Path | None
) -> tuple[np.ndarray, Reading]:
    """Images of a folder, (N, H, W, C), mapped from the cache if there is one.

    One warning lists the changes. The returned reading has the window in use.
    """
    try:
        return _folder_images(index, fit, cache), fit.reading
    except NeedsWindow:
        reading = survey(index.root, index.paths, fit.reading, fit.channels).reading
    return _folder_images(index, fit._replace(reading=reading), cache), reading


def _folder_images(index: FolderIndex, fit: Fit, cache: Path | None) -> np.ndarray:
    known = _known(index, cache) or _known_copy(index, cache)
    found = _kept(index, fit, cache, known)
    if found is None:
        wait = f"{index.root}: another process is decoding the images; waiting"
        with caching.waiting_for(cache, _name(index), lambda: console.info(wait)):
            # The holder of the lock may have decoded the images.
            found = _kept(index, fit, cache, _known(index, cache))
            found = found or _decoded(index, fit, cache)
    images, about = found
    _warn_of_few_levels(index.root, images, fit.reading)
    _warn(index, fit, about, images)
    return images


def _kept(
    index: FolderIndex, fit: Fit, cache: Path | None, about: About | None
) -> Found | None:
    """Images of the cache; None if missing or damaged."""
    if cache is None or about is None:
        return None
    path = caching.images_path(cache, _key(about, fit, len(index)))
    try:
        images = read_dataset(path).images
        with console.bar(f"verifying {index.root.name}", images.nbytes) as bar:
            caching.use_images(path, bar.reach)
    except FurlkitError:
        if path.exists():
            console.info(f"{path}: the cache has a damaged copy of {index.root}")
            caching.drop(path)
        return None
    if len(images) != len(index) or images.shape[3] != fit.channels:
        return None
    return images, about


def _known(index: FolderIndex, cache: Path | None) -> About | None:
    """Stored facts about these files, if the file system reports no change."""
    return _about(caching.read_note(cache, f"{_name(index)}-{index.state[:40]}"))


def _known_copy(index: FolderIndex, cache: Path | None) -> About | None:
    """Stored facts about files with equal content, read before."""
    notes = caching.notes_beginning(cache, f"{_name(index)}-")
    others = [_about(note) for note in notes]
    content = _content(index) if any(others) else None
    for about in others:
        if about and about.content == content:
            _note(index, about, cache)
            return about
    return None


def _about(note: dict) -> About | None:
    try:
        size = note.pop("size")
        return About(**note, size=size and (size[0], size[1]))
    except (KeyError, TypeError, IndexError):
        return None


def _note(index: FolderIndex, about: About, cache: Path | None) -> None:
    name = f"{_name(index)}-{index.state[:40]}"
    caching.write_note(cache, name, asdict(about))


def _name(index: FolderIndex) -> str:
    """Cache name, equal for folders with equal file names and sizes."""
    return index.labels.fingerprint["files"][:40]


def _key(about: About, fit: Fit, examples: int) -> str:
    import PIL

    side = about.side(fit, examples)
    how = DECODER, PIL.__version__, *sorted(fit.reading.facts().items())
    return caching.cache_key(about.content, side, fit.channels, how)


def _content(index: FolderIndex) -> str:
    """Hash of all files, read but not decoded."""
    from furlkit.data.sets.decode import read_file

    def digest(name: str) -> bytes:
        try:
            return hashlib.sha256(read_file(index.root / name)).digest()
        except (OSError, ValueError):  # Decoding it says what is wrong.
            return b""

    console.info(f"{index.root}: searching the cache for {len(index):,} images")
    digests = (d for block in in_blocks(digest, index.paths) for d in block)
    return hashlib.sha256(b"".join(digests)).hexdigest()


def _decoded(index: FolderIndex, fit: Fit, cache: Path | None) -> Found:
    """Decode the images, and store them in the cache if there is one."""
    where = f"; kept in {cache}" if cache else ""
    console.info(f"{index.root}: decoding {len(index):,} images{where}")
    images, about = _decode(index, fit, cache)
    _note(index, about, cache)
    if cache is None:
        return images, about
    path = caching.images_path(cache, _key(about, fit, len(index)))
    try:
        if images.nbytes > caching.MOST_BYTES:
            size, most = images.nbytes, caching.MOST_BYTES
            raise DiskError(f"they take {size:,} bytes, the cache {most:,}")
        _write(path, images, about)
    except DiskError as error:
        console.warn(
            f"{index.root}: decoded images are not stored, so the next command decodes "
            f"again; pack the folder with --image-size ({error})"
        )
        return images, about
    caching.make_room(cache, path)
    # Another process may remove the file at any time; then use the decoded array.
    return _kept(index, fit, cache, about) or (images, about)


def _warn_of_few_levels(root: Path, images: np.ndarray, reading: Reading) -> None:
    """Warn if the folder's values do not fit the model's window."""
    some = images[:: -(-len(images) // SAMPLE)] if len(images) else images
    levels = len(np.unique(some))
    if reading.window is not None and levels < FEW:
        console.warn(
            f"{root}: the window {reading.window} leaves {levels} grey levels of "
            f"{len(some)} images; furlkit check shows the values of the files"
        )


def _write(path: Path, images: np.ndarray, about: About) -> None:
    mean, std = default_mean_std(images.shape[3])
    facts = DatasetFacts([], [], {"examples": len(images)}, [*mean], [*std])
    blocks = (images[i : i + BLOCK] for i in range(0, len(images), BLOCK))
    how = Provenance("cache", {"content": about.content})
    n, *shape = images.shape
    write_dataset(path, (n, *shape), blocks, {}, facts, how, images.dtype)


def _decode(index: FolderIndex, fit: Fit, cache: Path | None) -> Found:
    """Decode all images in order; read each file once.

    Images keep the size of the first image. After the first different size, all images
    are resized to the requested size, including the images decoded so far.
    """
    from furlkit.data.sets.decode import Decoded, decode_file, fitted

    first = decode_file(index.root / index.paths[0], fit.channels, fit.reading)
    side = None if _keeps(first.size, fit, len(index)) else fit.size

    def decode(name: str) -> tuple[Decoded, tuple[int, int]]:
        nonlocal side
        image = decode_file(index.root / name, fit.channels, fit.reading)
        if side is None and image.size != first.size:
            if fit.size is None:
                raise other_size(index.root / name, image.size, first.size)
            side = fit.size
        return image._replace(pixels=fitted(image.pixels, side)), image.size

    block = max(1, min(BLOCK, BLOCK_BYTES // first.pixels.nbytes))
    rest = in_blocks(decode, index.paths[1:], block)
    # Decode a block first: space for an unused size is then seldom allocated.
    some = [(first, first.size), *next(rest, [])]
    shape = len(index), *fitted(first.pixels, side).shape
    images = _space(shape, fit.reading.dtype, cache)
    sizes: set[tuple[int, int]] = set()
    digests: list[bytes] = []
    greys = 0
    with console.bar("decoding", len(index)) as bar:
        while some:
            if side is not None and images.shape[1:3] != (side, side):
                images = _refitted(images, len(digests), side, cache)
            for image, size in some:
                same = image.pixels.shape == images.shape[1:]
                pixels = image.pixels if same else fitted(image.pixels, side)
                images[len(digests)] = pixels
                digests.append(image.digest)
                sizes.add(size)
                greys += image.grey
            bar.reach(len(digests))
            some = next(rest, [])
    content = hashlib.sha256(b"".join(digests)).hexdigest()
    common = first.size if len(sizes) == 1 else None
    return images, About(content, common, size_range(sizes), greys)


def _keeps(size: tuple[int, int] | None, fit: Fit, examples: int) -> bool:
    """Return True if images with a common size keep the size."""
    if size is None or fit.exact:
        return False
    total = examples * size[0] * size[1] * fit.channels * fit.reading.dtype.itemsize
    return fit.size is None or total <= MOST_BYTES


def _refitted(
    images: np.ndarray, done: int, side: int, cache: Path | None
) -> np.ndarray:
    """Array for another size, with the images decoded so far."""
    from furlkit.data.sets.decode import fitted

    shape = len(images), side, side, images.shape[3]
    smaller = _space(shape, images.dtype, cache)
    for position in range(done):
        smaller[position] = fitted(images[position], side)
    return smaller


def _space(shape: tuple[int, ...], dtype: np.dtype, cache: Path | None) -> np.ndarray:
    """Array in an unnamed file of the cache, or in memory."""
    if cache is None or not hasattr(os, "posix_fallocate"):
        return np.empty(shape, dtype)
    try:
        with tempfile.TemporaryFile(dir=cache) as file:
            # Detect a full disk now: writing to the map could not.
            size = int(np.prod(shape, dtype=np.int64)) * dtype.itemsize
            os.posix_fallocate(file.fileno(), 0, size)
            return np.memmap(file, dtype, "r+", shape=shape)
    except OSError:
        return np.empty(shape, dtype)


def _warn(index: FolderIndex, fit: Fit, about: About, images: np.ndarray) -> None:
    """Warn once about all changes of the images."""
    if reasons := list(_changes(fit, about, images)):
        height, width, channels = images.shape[1:]
        console.warn(
            f"{index.root}: {' and '.join(reasons)}; all are converted to {width} x "
            f"{height} pixels in {colours_of(channels)}"
        )


def colours_of(channels: int) -> str:
    """Channels of images in words."""
    return {1: "grey", 3: "colour"}.get(channels, f"{channels} channels")


def _changes(fit: Fit, about: About, images: np.ndarray) -> Iterator[str]:
    n, (height, width) = len(images), images.shape[1:3]
    if about.size is None:
        yield f"{n:,} images have {about.sizes}"
    elif about.size != (width, height) and not fit.exact:
        yield f"{n:,} images of {about.sizes} would take too much space"
    changed = about.grey if fit.channels == 3 else n - about.grey
    if changed and fit.channels in (1, 3):
        was = "grey" if fit.channels == 3 else "in colour"
        yield f"{changed:,} of {n:,} images are {was}"
