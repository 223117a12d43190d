"""Candidate images of audits: images of a client, and images that the client lacks."""

from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError


@dataclass(frozen=True)
class Candidates:
    """Some images of a set, by position."""

    images: ImageSet
    index: np.ndarray

    def __len__(self) -> int:
        return len(self.index)

    def first(self, count: int | None) -> "Candidates":
        """The first images; all images for None."""
        return replace(self, index=self.index[:count])

    @property
    def pixels(self) -> np.ndarray:
        """The images (n, H, W, C)."""
        return self.images.images[self.index]


def others_source(
    data: str, others: str | None, place: dict[str, Any], flag: str = "members"
) -> Source:
    """--others, or the test split of the dataset."""
    if others is None and Path(data).exists() and not Source(data).has_splits:
        raise UsageError(f"--{flag} {data}: has no test split; give --others")
    return Source(others or data, **place, split="test")


def without_copies(members: Candidates, others: ImageSet) -> Candidates:
    """The other images, without exact copies of members; copies are named in a warning."""
    every = np.arange(len(others.images))
    if members.images.images.shape[1:] != others.images.shape[1:]:
        return Candidates(others, every)
    known = {_digest(members.images.images[i]) for i in members.index}
    fresh = np.array([_digest(others.images[i]) not in known for i in every], bool)
    copies = len(every) - int(fresh.sum())
    if not fresh.any():
        raise InputError(
            f"{others.name}: every image is also a member; give --others with images "
            "that were not used for training"
        )
    if copies:
        console.warn(
            f"{others.name}: {copies:,} of {len(every):,} images are copies of members "
            "and are left out"
        )
    return Candidates(others, every[fresh])


def _digest(image: np.ndarray) -> bytes:
    return sha256(image.tobytes()).digest()
