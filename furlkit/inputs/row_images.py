"""Images behind the rows of a client, for audits that compare both."""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from furlkit import console
from furlkit.aggregators.dictionary import drawn_places
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.container.header import Header
from furlkit.files.container.read import Container
from furlkit.files.features import Features, noise_of, read_features
from furlkit.files.partition import Partition, read_partition
from furlkit.files.secret import DRAWN_BY, SECRET, origin_of_draws, read_secret
from furlkit.inputs.audited import (
    check_model_of_rows,
    check_number,
    check_partition_of_rows,
    is_own_model,
    is_recorded,
)
from furlkit.inputs.matching import check_dataset
from furlkit.inputs.secrets import is_secret_of
from furlkit.models.description import z_width
from furlkit.randomness import numpy_generator


@dataclass(frozen=True)
class RowImages:
    """Rows with positions of their images, and positions of images of other clients.

    `others` is empty without a partition. `partition`: content hash by role. `noise`:
    sigma of the rows, by the header. `by_secret`: a secret chose the images; `confirmed`:
    the record beside the rows has the fingerprint of the secret; `images_confirmed`: of
    the images. `by_own_model`: the attacker's model is the client's, of the round of the
    rows.
    """

    rows: Features
    index: np.ndarray
    others: np.ndarray
    partition: dict[str, str]
    noise: float = 0.0
    by_secret: bool = False
    confirmed: bool = False
    images_confirmed: bool = False
    by_own_model: bool = False


def open_row_images(
    path: Path,
    model: Checkpoint,
    images: ImageSet,
    partition: Path | None,
    secret: Path | None,
) -> RowImages:
    """Read rows of a client and find their images; `secret`: the site's."""
    rows, header = read_features(path), Container(path).header
    _check_rows(rows, model)
    known = read_partition(partition) if partition else None
    check_partition_of_rows(rows, header.stage, known)
    if known:
        check_dataset(known, images)
    by_own = is_own_model(rows, model, header.inputs.get("model"))
    check_model_of_rows(rows, model, by_own)
    own = _images_of(rows, known, len(images.images))
    recorded = not rows.facts.dataset and is_recorded(path, rows.content, images)
    if by_own and not rows.facts.dataset:
        check_number(model, len(own), images)
    index = _index(rows, header, own, images, secret)
    # Rows of embed may be of other images than the client's.
    seen = np.union1d(own, index)
    rest = np.setdiff1d(np.arange(len(images.images)), seen) if known else own[:0]
    contents = {"partition": known.content} if known else {}
    found = RowImages(
        rows, index, rest, contents, noise_of(header), by_own_model=by_own
    )
    if secret is None or rows.facts.dataset:
        return found
    confirmed = is_secret_of(path, rows.content, secret)
    return replace(
        found, by_secret=True, confirmed=confirmed, images_confirmed=recorded
    )


def _check_rows(rows: Features, model: Checkpoint) -> None:
    facts, width = rows.facts, z_width(model)
    joined = facts.owners is not None or facts.part in ("dictionary", "centroids")
    if facts.layer != "z" or joined or rows.counts is not None:
        raise InputError(
            f"{rows.path}: expected rows of z of one client, as written by local-train "
            "--features-out or embed --layer z; give the file of a single client"
        )
    if rows.rows.shape[1] != width:
        raise InputError(
            f"{rows.path}: rows have {rows.rows.shape[1]} numbers, z of {model.path} has "
            f"{width}; give the client's model, or the global model of the round"
        )


def _images_of(rows: Features, partition: Partition | None, total: int) -> np.ndarray:
    """Positions of the client's images in the dataset."""
    if partition is None:
        return np.arange(total)
    client = rows.facts.client
    if client is None:
        raise UsageError(
            f"--partition {partition.path}: {rows.path} names no client; leave out "
            "--partition"
        )
    return partition.of(client)


def _index(
    rows: Features,
    header: Header,
    own: np.ndarray,
    images: ImageSet,
    secret: Path | None,
) -> np.ndarray:
    """Position of each row's image in the dataset."""
    if rows.facts.dataset:  # embed records the positions.
        if difference := same_dataset(rows.facts.dataset, images.fingerprint):
            raise InputError(
                f"{rows.path}: is not of {images.name}: {difference}; give the --data of "
                "embed as --candidates"
            )
        return rows.index
    shared = header.options.get("rows")
    count = min(shared, len(own)) if type(shared) is int else -1
    seed = _seed(rows, header, secret)
    if count != len(rows.rows):
        raise InputError(
            f"{rows.path}: has {len(rows.rows)} rows, and the choice from "
            f"{len(own):,} images of {images.name} gives {max(count, 0)}; give the images "
            "and the partition of the training"
        )
    facts = rows.facts
    origin = origin_of_draws(facts.run, facts.parent) if secret else ()
    purpose = ("share", facts.round or 0, facts.client or 0, *origin)
    rng = numpy_generator(seed, *purpose)
    return own[drawn_places(len(own), count, rng)]


def _seed(rows: Features, header: Header, secret: Path | None) -> int:
    """Secret of the site, or the seed of a simulation."""
    drawn_by_secret = header.options.get(DRAWN_BY) == SECRET
    if drawn_by_secret and secret:
        return read_secret(secret)
    if drawn_by_secret:
        raise UsageError(
            f"{rows.path}: a secret of the site chose the images; give --secret FILE of "
            "the site"
        )
    if secret:
        raise UsageError(
            f"--secret {secret}: {rows.path} was drawn by the seed; leave out --secret"
        )
    return header.seed or 0


def limited(found: RowImages, places: np.ndarray) -> RowImages:
    """Some of the rows, by place."""
    if len(places) < len(found.index):
        console.info(f"{len(places):,} of {len(found.index):,} rows are attacked")
    rows = replace(found.rows, rows=found.rows.rows[places])
    return replace(found, rows=rows, index=found.index[places])
