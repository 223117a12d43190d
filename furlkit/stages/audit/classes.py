"""audit classes: infer the classes that clients hold from files that clients share."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.header import with_article
from furlkit.files.container.read import Container
from furlkit.files.features import Features, open_table, read_features
from furlkit.files.partition import Partition, read_partition
from furlkit.files.similarity import Similarity, similarity_of
from furlkit.inputs.audited import (
    check_models_of_rows,
    check_same_partition,
    check_started_from,
)
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.labelled import check_labelled
from furlkit.inputs.models import width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.stages.audit import AuditOptions, conclude, draw, work_of

Upload = Checkpoint | Features | Similarity
MOST = 4000  # Public images of a similarity that are compared.
KNOWN = {
    "checkpoint": "the models",
    "features": "the rows",
    "similarity": "similarities",
}


@dataclass(frozen=True)
class Knowledge:
    """Open files of the attacker, and public images by position.

    `truth` has the true classes, for the comparison.
    """

    uploads: Sequence[Upload]
    models: Sequence[Checkpoint]
    parent: Checkpoint | None
    images: ImageSet
    index: np.ndarray
    truth: Partition | None


@dataclass(frozen=True, kw_only=True)
class ClassesOptions(AuditOptions):
    """`part` of `public` is known to the attacker; `partition` has the true classes."""

    uploads: tuple[Path, ...]
    models: tuple[Path, ...]
    parent: Path | None
    public: Source
    partition: Path | None
    part: str
    layer: str


def run(values: dict[str, Any]) -> Result:
    """Score every class for every client."""
    options = _options(values)
    paths = (*options.uploads, *options.models, options.parent, options.partition)
    check_output(options.output, [*paths, options.public.name])
    uploads = _open(options)
    kind = _kind_of(uploads[0])
    parent = read_checkpoint(options.parent) if options.parent else None
    models = [read_checkpoint(path) for path in options.models]
    images = _images(options, uploads, models)
    truth = read_partition(options.partition) if options.partition else None
    # Without --part, public images need not be in the dataset of the partition.
    of_part = None if options.part == "all" else options.partition
    index, _ = chosen_images(images, of_part, options.part)
    index = draw(index, options.images, options.seed, "public")
    _check_reference(options, uploads, images)
    _check_headers(uploads, models, parent, truth)
    origins = {
        "protocol": "classes",
        "attacker": _describe_knowledge(kind, parent),
        "n": {
            "clients": len(uploads),
            "classes": len(images.class_names),
            "images": _compared_images(uploads[0], index),
        },
        "class_names": list(images.class_names),
        "data": {"public": images.fingerprint},
        "inputs": by_role(
            "audit classes",
            uploads=dict(enumerate(uploads)),
            models=dict(enumerate(models)),
            parent=parent,
            partition=truth,
        ),
    }

    known = Knowledge(uploads, models, parent, images, index, truth)
    return conclude(options, origins, lambda: work_of("classes").attack(options, known))


def _options(values: dict[str, Any]) -> ClassesOptions:
    known = recorded("audit classes", values)
    place = ("data_root", "download", "cache", "split")
    given = {key: values.pop(key) for key in place}
    values["public"] = Source(values["public"], **given)
    return fill(ClassesOptions, {**values, "recorded": known})


def _open(options: ClassesOptions) -> list[Upload]:
    """Files of one kind, sorted by client; the order on the command line is free."""
    found = [_read(path) for path in options.uploads]
    kinds = {_kind_of(each): each for each in found}
    if len(kinds) > 1:
        (one, first), (other, second), *_ = sorted(kinds.items())
        raise UsageError(
            f"{first.path} is a {one} file, {second.path} a {other} file; audit one kind "
            "of file at a time"
        )
    found.sort(key=lambda each: (client_order(client_of_upload(each)), each.content))
    for upload, following in pairwise(found):
        client = client_of_upload(upload)
        if client == client_of_upload(following):
            raise InputError(
                f"{following.path}: is of client {client}, round "
                f"{following.facts.round}, and {upload.path} is of the same client, round "
                f"{upload.facts.round}; expected one file of each client; leave one out"
            )
    return found


def _read(path: Path) -> Upload:
    kind = Container(path).header.kind
    if kind == "masked":
        raise InputError(
            f"{path}: is a masked upload, which reveals only the sum over the sites; "
            "audit the upload before mask upload"
        )
    if kind not in KNOWN:
        raise InputError(
            f"{path}: is {with_article(kind)} file; expected a checkpoint, features or "
            "similarity file"
        )
    if kind == "checkpoint":
        return read_checkpoint(path)
    if kind == "similarity":
        return similarity_of(*open_table(path, kind, "matrix"))
    return read_features(path)


def _kind_of(upload: Upload) -> str:
    if isinstance(upload, Checkpoint):
        return "checkpoint"
    return "similarity" if isinstance(upload, Similarity) else "features"


def client_of_upload(upload: Upload) -> ClientId:
    """Client of a file; raise if the header names no client."""
    client = upload.facts.client
    if client is None:
        raise InputError(f"{upload.path}: names no client; give files of clients")
    return client


def _compared_images(upload: Upload, index: np.ndarray) -> int:
    """Number of public images that the attack compares."""
    if isinstance(upload, Checkpoint) or not is_of_public(upload):
        return len(index)
    whole = isinstance(upload, Features) or upload.columns is None
    return min(len(upload.index), MOST) if whole else len(upload.index)


def is_of_public(upload: Upload) -> bool:
    """Return whether the rows are of the attacker's images, not of the client's."""
    return not isinstance(upload, Checkpoint) and bool(upload.facts.dataset)


def _images(
    options: ClassesOptions, uploads: Sequence[Upload], models: Sequence[Checkpoint]
) -> ImageSet:
    first, fitting = uploads[0], models[0] if models else None
    if isinstance(first, Checkpoint):
        fitting = first
    if fitting is None and not is_of_public(first):
        raise UsageError(
            f"{first.path}: rows of the client's images; give --model, by which the "
            "attacker compares rows with public images"
        )
    opened = (
        open_images(options.public, fitting) if fitting else options.public.images()
    )
    return check_labelled(opened)


def _check_reference(
    options: ClassesOptions, uploads: Sequence[Upload], images: ImageSet
) -> None:
    first = uploads[0]
    rows = _kind_of(first) == "features" and not is_of_public(first)
    if len(uploads) == 1 and not rows and not options.parent:
        raise UsageError(
            f"{first.path}: a single upload needs a reference; give --parent, or the "
            "uploads of several clients"
        )
    if options.parent and not isinstance(first, Checkpoint):
        raise UsageError("--parent: applies to models only; leave out --parent")
    tables = [each for each in uploads if not isinstance(each, Checkpoint)]
    for each in filter(is_of_public, tables):
        if difference := same_dataset(each.facts.dataset, images.fingerprint):
            raise InputError(
                f"{each.path}: is not of {images.name}: {difference}; give the dataset "
                "of embed as --public"
            )
    for model in uploads:
        if isinstance(model, Checkpoint):
            width_of(model, options.layer)


def _check_headers(
    uploads: Sequence[Upload],
    models: Sequence[Checkpoint],
    parent: Checkpoint | None,
    truth: Partition | None,
) -> None:
    """Check that parent, partition and models belong to the uploads, by the headers."""
    content = truth.content if truth else None
    for each in uploads:
        if isinstance(each, Checkpoint):
            check_same_partition(each.path, each.facts.partition, content)
            if parent:
                check_started_from(each, parent)
    rows = private_rows(uploads)
    if 0 < len(rows) < len(uploads):
        raise UsageError(
            f"{rows[0].path}: has rows of the client's images, other files have rows of "
            "public images; audit one kind of rows at a time"
        )
    for table in rows:
        check_same_partition(table.path, table.partition, content)
    check_models_of_rows(rows, models)


def private_rows(uploads: Sequence[Upload]) -> list[Features]:
    """Uploads with rows of the client's images."""
    return [e for e in uploads if isinstance(e, Features) and not is_of_public(e)]


def _describe_knowledge(kind: str, parent: Checkpoint | None) -> str:
    text = f"the attacker has {KNOWN[kind]} of the clients and labelled public images"
    return f"{text}, and the model before training" if parent else text
