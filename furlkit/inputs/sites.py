"""A client that is a site: all images that it is given are its own, without a partition."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import UsageError
from furlkit.files.clients import ClientId
from furlkit.files.container.header import canonical
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import Private


def images_of(
    client: ClientId, partition: Partition | None, images: ImageSet
) -> np.ndarray:
    """The places of a client's images: as the partition says, or all of a site's."""
    return partition.of(client) if partition else np.arange(len(images.images))


def chosen_clients(
    clients: tuple[ClientId, ...], partition: Path | None
) -> tuple[ClientId, ...]:
    """The clients given; `all` means every client of the partition with images."""
    if clients != ("all",):
        return clients
    if partition is None:
        raise UsageError("--client all: needs a PARTITION; a site gives its name")
    return tuple(np.flatnonzero(read_partition(partition).sizes).tolist())


def check_one_site(clients: Sequence[ClientId]) -> None:
    """Without a partition all images are one client's."""
    if len(clients) > 1:
        raise UsageError(
            f"--client: {len(clients)} clients share --data by a PARTITION, which is not "
            "given; give it, or one client, whose images all of them are"
        )


def images_hash(images: ImageSet) -> str:
    """A hash by which a site knows its images again; it is in no upload."""
    return sha256(canonical(images.fingerprint).encode()).hexdigest()


def class_counts(images: ImageSet, index: np.ndarray) -> dict[str, Any]:
    """How many of the images at `index` are of each class, by its name."""
    labels = np.asarray(images.labels)[index]
    counts = np.bincount(labels, minlength=len(images.class_names)).tolist()
    return dict(zip(images.class_names, counts, strict=True))


def of_these_images(private: Private, images: ImageSet) -> Private:
    """What a site kept, without rows of single images if its images have changed since.

    Rows are found by their place among the images, which an image that was added or
    removed changes for others too.
    """
    kept = private.facts.dataset
    rows = {name.split(".")[0] for name in private.memory if name.endswith(".index")}
    if not kept or not rows or not same_dataset(kept, images.fingerprint):
        return private
    console.warn(
        f"{private.path}: the images of {images.name} have changed since round "
        f"{private.facts.round}; what it keeps of single images "
        f"({', '.join(sorted(rows)).replace('_', ' ')}) is not used"
    )
    memory = {k: v for k, v in private.memory.items() if k.split(".")[0] not in rows}
    return replace(private, memory=memory)


def journal_line(images: ImageSet) -> dict[str, Any]:
    """The line of a journal that names a site's images."""
    return {"event": "images", "dataset": images.fingerprint}


def is_of_images(output: Path, images: ImageSet) -> bool:
    """Return whether a site's upload is of these images.

    The upload does not say so, but its journal does, which stays at the site.
    """
    wanted = journal_line(images)
    lines = [e for e in Journal(output).read() if e.get("event") == wanted["event"]]
    same = bool(lines) and lines[-1].get("dataset") == wanted["dataset"]
    if not same:
        console.info(
            f"{output}: its journal does not say that it is of the images in "
            f"{images.name}; making it again"
        )
    return same


def site_provenance(provenance: Provenance, images: ImageSet) -> Provenance:
    """The provenance of files that stay at a site: it has the hash of the images, too."""
    data = {"data": images_hash(images)}
    return replace(provenance, inputs={**provenance.inputs, **data})
