"""audit classes: infer the classes that clients hold from files that clients share."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from furlkit import console, runtime
from furlkit.audits.classes import (
    NEIGHBOURS,
    classes_of_rows,
    mean_by_class,
    nearest_columns,
    purity,
)
from furlkit.audits.membership import contrastive_gain, unit
from furlkit.catalogue import AUDITS, load, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.read import Container
from furlkit.files.features import Features, open_table, read_features
from furlkit.files.partition import Partition, read_partition
from furlkit.files.similarity import Similarity, cosines, similarity_of
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result
from furlkit.inputs.images import open_images
from furlkit.inputs.labelled import check_labelled
from furlkit.inputs.models import width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.embedding import embed, embed_views
from furlkit.models.loading import load_net, view_of
from furlkit.stages.audit import (
    Attack,
    AuditOptions,
    augmentation_of,
    conclude,
    draw,
    seconds_per,
    success_of,
)

Upload = Checkpoint | Features | Similarity
VIEWS, TAU = 4, 0.5  # Views of a public image, and temperature of the contrast.
MOST = 4000  # Public images of a similarity that are compared.
KNOWN = {
    "checkpoint": "the models",
    "features": "the rows",
    "similarity": "similarities",
}


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


@dataclass(frozen=True)
class Public:
    """Labelled images of the attacker, and models to embed the images."""

    images: ImageSet
    index: np.ndarray
    layer: str
    seed: int
    device: torch.device

    @property
    def classes(self) -> int:
        """Number of classes."""
        return len(self.images.class_names)

    def labels(self, index: np.ndarray) -> np.ndarray:
        """Labels of images by position."""
        return np.asarray(self.images.labels)[index]

    def views(self, model: Checkpoint, few: int | None = None) -> np.ndarray:
        """Features (V, n, d) of augmented views of the images by a model."""
        net, view = load_net(model, self.device), view_of(model, augmentation_of(model))
        images = Images(self.images.images, None, self.index[:few], view, self.device)
        return embed_views(net, images, self.layer, VIEWS, self.seed, "audit public")

    def features(self, model: Checkpoint, layer: str, few: int | None = None) -> Any:
        """h or z (n, d) of the images by a model."""
        net, view = load_net(model, self.device), view_of(model, Augmentation())
        index = self.index[:few]
        return embed(net, self.images.images, index, view, layer).numpy()


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
    device = runtime.start(options.runtime)
    index = draw(index, options.images, options.seed, "public")
    public = Public(images, index, options.layer, options.seed, device)
    _check_reference(options, uploads, images)
    names = [_client(each) for each in uploads]
    origins = {
        "protocol": "classes",
        "attacker": _knowledge(kind, parent),
        "n": {
            "clients": len(uploads),
            "classes": public.classes,
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

    def attacked() -> dict[str, Any]:
        scores = _scores(uploads, public, models, parent)
        return {
            "clients": [
                {"client": name, "scores": row.tolist()}
                for name, row in zip(names, scores, strict=True)
            ],
            **(_compared(truth, names, scores, options.seed) if truth else {}),
        }

    attack = Attack(origins, attacked, lambda: _estimate(uploads, public, models))
    return conclude(options, attack)


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
    return sorted(found, key=lambda each: (client_order(_client(each)), each.content))


def _read(path: Path) -> Upload:
    kind = Container(path).header.kind
    if kind == "checkpoint":
        return read_checkpoint(path)
    if kind == "similarity":
        return similarity_of(*open_table(path, kind, "matrix"))
    return read_features(path)


def _kind_of(upload: Upload) -> str:
    if isinstance(upload, Checkpoint):
        return "checkpoint"
    return "similarity" if isinstance(upload, Similarity) else "features"


def _client(upload: Upload) -> ClientId:
    client = upload.facts.client
    if client is None:
        raise InputError(f"{upload.path}: names no client; give files of clients")
    return client


def _compared_images(upload: Upload, index: np.ndarray) -> int:
    """Number of public images that the attack compares."""
    if isinstance(upload, Checkpoint) or not _of_public(upload):
        return len(index)
    whole = isinstance(upload, Features) or upload.columns is None
    return min(len(upload.index), MOST) if whole else len(upload.index)


def _of_public(upload: Upload) -> bool:
    """Return whether the rows are of the attacker's images, not of the client's."""
    return not isinstance(upload, Checkpoint) and bool(upload.facts.dataset)


def _images(
    options: ClassesOptions, uploads: Sequence[Upload], models: Sequence[Checkpoint]
) -> ImageSet:
    first, fitting = uploads[0], models[0] if models else None
    if isinstance(first, Checkpoint):
        fitting = first
    if fitting is None and not _of_public(first):
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
    rows = _kind_of(first) == "features" and not _of_public(first)
    if len(uploads) == 1 and not rows and not options.parent:
        raise UsageError(
            f"{first.path}: a single upload needs a reference; give --parent, or the "
            "uploads of several clients"
        )
    if options.parent and not isinstance(first, Checkpoint):
        raise UsageError("--parent: applies to models only; leave out --parent")
    tables = [each for each in uploads if not isinstance(each, Checkpoint)]
    for each in filter(_of_public, tables):
        if difference := same_dataset(each.facts.dataset, images.fingerprint):
            raise InputError(
                f"{each.path}: is not of {images.name}: {difference}; give the dataset "
                "of embed as --public"
            )
    for model in uploads:
        if isinstance(model, Checkpoint):
            width_of(model, options.layer)


def _knowledge(kind: str, parent: Checkpoint | None) -> str:
    text = f"the attacker has {KNOWN[kind]} of the clients and labelled public images"
    return f"{text}, and the model before training" if parent else text


def _scores(
    uploads: Sequence[Upload],
    public: Public,
    models: Sequence[Checkpoint],
    parent: Checkpoint | None,
) -> np.ndarray:
    """Evidence (clients, classes) for held classes."""
    rows = [e for e in uploads if isinstance(e, Features) and not _of_public(e)]
    if rows:
        return np.array([_votes(each, public, models) for each in rows])
    measured = np.array([_measured(each, public) for each in uploads])
    reference = _measured(parent, public) if parent else measured.mean(axis=0)
    return load(AUDITS["classes"].function)(measured, reference)


def _votes(rows: Features, public: Public, models: Sequence[Checkpoint]) -> np.ndarray:
    """Share of each class near the rows, by the client's model or the first model."""
    own = (model for model in models if model.facts.client == rows.facts.client)
    z = public.features(next(own, models[0]), "z")
    labels = public.labels(public.index)
    return classes_of_rows(rows.rows, z, labels, public.classes)


def _measured(upload: Upload, public: Public) -> np.ndarray:
    """A number for each class, higher for classes that the client has trained on."""
    if isinstance(upload, Checkpoint):
        gains = contrastive_gain(public.views(upload), TAU)
        return mean_by_class(gains, public.labels(public.index), public.classes)
    if isinstance(upload, Similarity) and upload.columns is not None:
        labels = public.labels(upload.index)
        return purity(upload.columns, labels, public.classes)
    labels = public.labels(upload.index[:MOST])
    near = nearest_columns(_cosines(upload), NEIGHBOURS)
    return purity(near, labels, public.classes)


def _cosines(upload: Features | Similarity) -> np.ndarray:
    """Cosines of the first images, at most MOST."""
    if isinstance(upload, Similarity):
        return cosines(np.asarray(upload.matrix[:MOST, :MOST]))
    u = unit(upload.rows[:MOST])
    return u @ u.T


def _compared(
    partition: Partition, names: Sequence[ClientId], scores: np.ndarray, seed: int
) -> dict[str, Any]:
    """Agreement of the scores with the classes in the partition."""
    clients, classes = partition.histogram.shape
    if classes != scores.shape[1] or not all(
        type(name) is int and name < clients for name in names
    ):
        raise InputError(
            f"{partition.path}: has {clients} clients and {classes} classes, the uploads "
            f"are of {len(names)} clients and --public has {scores.shape[1]} classes; "
            "give the partition of the clients"
        )
    holds = partition.histogram[[int(name) for name in names]] > 0
    usable = np.isfinite(scores)
    held, others = scores[holds & usable], scores[~holds & usable]
    found: dict[str, Any] = {"holds": holds.astype(int).tolist()}
    if not len(held) or not len(others):
        console.warn(
            f"{partition.path}: every client holds every class, or no class; there is "
            "nothing to tell apart, and no AUC"
        )
        return found
    best = np.nanargmax(np.where(usable, scores, -np.inf), axis=1)
    right = holds[np.arange(len(holds)), best].mean()
    pairs = {"held": len(held), "not_held": len(others), "first_guess": float(right)}
    return {**found, **success_of(held, others, seed, "classes"), **pairs}


def _estimate(
    uploads: Sequence[Upload], public: Public, models: Sequence[Checkpoint]
) -> float:
    sent = [each for each in uploads if isinstance(each, Checkpoint)]
    count = len(public.index)
    if sent:
        each = seconds_per(count, lambda few: public.views(sent[0], few))
    elif models:
        each = seconds_per(count, lambda few: public.features(models[0], "z", few))
    else:
        each = min(count, MOST) * 1e-7  # A pair of images takes about 100 ns.
    return each * count * len(uploads)
