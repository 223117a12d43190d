"""Fingerprints identify a dataset by content, not by name or path.

A fingerprint is a dict of `examples` and up to four hashes: `images` (pixels), `labels`,
`files` (names and sizes in an image folder, available without decoding) and `domains`.
An unknown hash is None; sets without files or domains lack these entries. Pixels from a
window have the entry `window`, and `pages` if an option has chosen pages.
"""

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np

from furlkit.data.sets.window import Reading

SAMPLE = 1024
HASHES = ("images", "labels", "files")  # Each identifies a dataset.
READING = ("window", "pages", "slices")


def image_fingerprint(images: np.ndarray) -> str:
    """Hash the shape and up to 1,024 evenly spaced images of (N, H, W, C) uint8."""
    sample = (images[index] for index in sample_positions(len(images)))
    return hash_sample(images.shape, sample)


def hash_sample(shape: tuple[int, ...], sample: Iterable[np.ndarray]) -> str:
    """Hash the shape of a dataset and the images at its `sample_positions`."""
    digest = hashlib.sha256(repr(tuple(map(int, shape))).encode())
    for image in sample:
        digest.update(np.ascontiguousarray(image).data)
    return digest.hexdigest()


def sample_positions(examples: int) -> np.ndarray:
    """Positions hashed by `image_fingerprint`, including the first and last."""
    if examples <= SAMPLE:
        return np.arange(examples)
    return np.arange(SAMPLE) * (examples - 1) // (SAMPLE - 1)


def label_fingerprint(labels: np.ndarray) -> str:
    """Hash every label, or every domain."""
    return hashlib.sha256(np.ascontiguousarray(labels, "<i8").data).hexdigest()


def file_fingerprint(files: Iterable[tuple[str, int]]) -> str:
    """Hash the sorted (relative path, size in bytes) pairs of a folder."""
    digest = hashlib.sha256()
    for path, size in sorted(files):
        digest.update(f"{path}\0{size}\n".encode(errors="surrogateescape"))
    return digest.hexdigest()


def fingerprint_of(
    examples: int,
    *,
    images: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    domains: np.ndarray | None = None,
    files: Iterable[tuple[str, int]] | None = None,
) -> dict[str, Any]:
    """Fingerprint of a dataset, with a hash of each given part."""
    fingerprint: dict[str, Any] = {
        "examples": int(examples),
        "images": None if images is None else image_fingerprint(images),
        "labels": None if labels is None else label_fingerprint(labels),
    }
    if files is not None:
        fingerprint["files"] = file_fingerprint(files)
    if domains is not None:
        fingerprint["domains"] = label_fingerprint(domains)
    return fingerprint


def fingerprint_of_reading(reading: Reading) -> dict[str, str]:
    """Entries for pixels made by options; empty for ordinary images."""
    return {key: str(reading.facts()[key]) for key in READING if key in reading.facts()}


def comparable(a: dict[str, Any], b: dict[str, Any]) -> list[str]:
    """Identifying hashes present in both fingerprints."""
    return [key for key in HASHES if a.get(key) and b.get(key)]


def same_dataset(a: dict[str, Any], b: dict[str, Any]) -> str | None:
    """Describe how two fingerprints differ; None if they agree.

    Only common hashes are compared, and one common hash must identify a dataset: equal
    domains alone do not.
    """
    one, other = a.get("examples", 0), b.get("examples", 0)
    if one != other:
        return f"one has {one:,} examples, the other {other:,}"
    common = comparable(a, b)
    if not common:
        return "they have no fingerprint in common and cannot be compared"
    common += [key for key in ("domains", *READING) if a.get(key) and b.get(key)]
    different = [key for key in common if a[key] != b[key]]
    if different:
        names = " and ".join(different)
        return f"the same number of examples, but other {names}"
    return None
