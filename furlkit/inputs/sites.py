"""Clients that are sites: every given image is the site's, without a partition."""

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

TELLABLE = ("examples", "classes", "loss")  # Facts that --tell may name.


def images_of(
    client: ClientId, partition: Partition | None, images: ImageSet
) -> np.ndarray:
    """Positions of a client's images: from the partition, or every image of a site."""
    return partition.of(client) if partition else np.arange(len(images.images))


def chosen_clients(
    clients: tuple[ClientId, ...], partition: Path | None
) -> tuple[ClientId, ...]:
    """Return the given clients; `all`: every client of the partition with images."""
    if clients != ("all",):
        return clients
    if partition is None:
        raise UsageError("--client all: needs a PARTITION; a site gives a name")
    return tuple(np.flatnonzero(read_partition(partition).sizes).tolist())


def unless_all(clients: tuple[ClientId, ...] | None) -> tuple[ClientId, ...] | None:
    """Return the given clients; None, the default, for `all`."""
    return None if clients == ("all",) else clients


def check_one_site(clients: Sequence[ClientId]) -> None:
    """Without a partition, refuse more than one client."""
    if len(clients) > 1:
        raise UsageError(
            f"--client: {len(clients)} clients share --data by a PARTITION, which is not "
            "given; give a PARTITION, or a single client, who then has all images"
        )


def images_hash(images: ImageSet) -> str:
    """Hash that identifies a site's images between rounds; never uploaded."""
    return sha256(canonical(images.fingerprint).encode()).hexdigest()


def class_counts(images: ImageSet, index: np.ndarray) -> dict[str, Any]:
    """Number of images at `index` of each class, by class name."""
    labels = np.asarray(images.labels)[index]
    counts = np.bincount(labels, minlength=len(images.class_names)).tolist()
    return dict(zip(images.class_names, counts, strict=True))


def of_these_images(private: Private, images: ImageSet) -> Private:
    """Drop a site's rows of single images if the images have changed since.

    Rows are found by position among the images; adding or removing an image shifts the
    positions of others.
    """
    kept = private.facts.dataset
    rows = {name.split(".")[0] for name in private.memory if name.endswith(".index")}
    if not kept or not rows or not same_dataset(kept, images.fingerprint):
        return private
    console.warn(
        f"{private.path}: the images of {images.name} have changed since round "
        f"{private.facts.round}; the rows kept of single images "
        f"({', '.join(sorted(rows)).replace('_', ' ')}) are not used"
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


def parse_tell(text: str | None) -> tuple[str, ...]:
    """Parse --tell, the facts for the server; the default is examples,loss."""
    if text is None:
        return ("examples", "loss")
    words = () if text == "nothing" else tuple(text.split(","))
    for word in words:
        if word not in TELLABLE:
            raise UsageError(
                f"--tell {text}: expected nothing, or some of {', '.join(TELLABLE)}"
            )
    return words
