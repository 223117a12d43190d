"""Packed datasets: images and labels in one file, memory-mapped on reading."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_normalisation
from furlkit.files.container.read import Container
from furlkit.files.container.write import Blocks, write
from furlkit.files.facts import Provenance, check_fingerprint, open_facts

BYTES = np.dtype("uint8")


@dataclass(frozen=True)
class DatasetFacts:
    """Names of classes and domains; fingerprint of images, labels and domains."""

    class_names: list[str]
    domain_names: list[str]
    fingerprint: dict[str, Any]
    mean: list[float]
    std: list[float]


class Packed(NamedTuple):
    """Packed dataset; `images` is a read-only memory map of (N, H, W, C).

    Images are uint8, or uint16 for images of 16 bits.
    """

    images: np.ndarray
    labels: np.ndarray | None
    domains: np.ndarray | None
    groups: np.ndarray | None
    facts: DatasetFacts


def write_dataset(
    path: Path,
    shape: tuple[int, int, int, int],
    blocks: Iterable[np.ndarray],
    columns: dict[str, np.ndarray],
    facts: DatasetFacts,
    provenance: Provenance,
    dtype: np.dtype = BYTES,
) -> str:
    """Write images from blocks (n, H, W, C); `columns`: labels, domains and groups."""
    images = Blocks(dtype, shape, blocks)
    header = provenance.header("dataset", facts)
    return write(path, {"images": images, **columns}, header)


def read_dataset(path: Path) -> Packed:
    """Map a packed dataset; checks the header and does not read images.

    `Source` compares the checksum at the first opening of a file.
    """
    opened, facts = open_facts(path, "dataset", DatasetFacts)
    deep = "images" in opened and opened.entry("images").dtype == np.dtype("<u2")
    kind = "uint16" if deep else "uint8"
    shape = opened.expect("images", kind, "N", "H", "W", "C").shape
    if not all(shape):
        raise InputError(f"{path}: images is {shape}; pack a dataset with images")
    check_fingerprint(path, facts.fingerprint)
    if facts.fingerprint["examples"] != shape[0]:
        raise InputError(f"{path}: the fingerprint is not of {shape[0]} images")
    check_normalisation(path, facts.mean, facts.std, shape[3])
    return Packed(
        opened.memmap("images"),
        _column(opened, "labels", facts.class_names),
        _column(opened, "domains", facts.domain_names),
        _column(opened, "groups", []),
        facts,
    )


def _column(opened: Container, name: str, names: list[str]) -> np.ndarray | None:
    if name not in opened:
        return None
    examples = opened.entry("images").shape[0]
    column = opened.read(opened.expect(name, "int64", examples))
    if column.min() < 0:
        raise InputError(
            f"{opened.path}: {name} go down to {column.min()}, expected numbers from 0; "
            "pack the dataset again"
        )
    if names and column.max() >= len(names):
        raise InputError(
            f"{opened.path}: {name} go up to {column.max()} and have {len(names)} names; "
            "pack the dataset again"
        )
    return column
