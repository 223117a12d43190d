"""A score for every class and client, from files that clients share."""

from collections.abc import Sequence
from dataclasses import dataclass
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
from furlkit.catalogue import AUDITS, load
from furlkit.data.augmentation import Augmentation
from furlkit.data.batches import Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.features import Features
from furlkit.files.partition import Partition
from furlkit.files.similarity import Similarity, cosines
from furlkit.inputs.audited import choose_model
from furlkit.models.embedding import embed, embed_views
from furlkit.models.loading import load_net, view_of
from furlkit.stages.audit import Attack, augmentation_of
from furlkit.stages.audit.classes import (
    MOST,
    ClassesOptions,
    Knowledge,
    Upload,
    client_of_upload,
    private_rows,
)
from furlkit.stages.audit.work import seconds_per, success_of

VIEWS, TAU = 4, 0.5  # Views of a public image, and temperature of the contrast.


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


def attack(options: ClassesOptions, known: Knowledge) -> Attack:
    """Attack by the files and the public images of the attacker."""
    device = runtime.start(options.runtime)
    public = Public(known.images, known.index, options.layer, options.seed, device)

    def attacked() -> dict[str, Any]:
        names = [client_of_upload(each) for each in known.uploads]
        scores = _scores(known.uploads, public, known.models, known.parent)
        truth = known.truth
        return {
            "clients": [
                {"client": name, "scores": row.tolist()}
                for name, row in zip(names, scores, strict=True)
            ],
            **(_compared(truth, names, scores, options.seed) if truth else {}),
        }

    return Attack(attacked, lambda: _estimate(known.uploads, public, known.models))


def _scores(
    uploads: Sequence[Upload],
    public: Public,
    models: Sequence[Checkpoint],
    parent: Checkpoint | None,
) -> np.ndarray:
    """Evidence (clients, classes) for held classes."""
    if rows := private_rows(uploads):
        return np.array([_votes(each, public, models) for each in rows])
    measured = np.array([_measured(each, public) for each in uploads])
    reference = _measured(parent, public) if parent else measured.mean(axis=0)
    return load(AUDITS["classes"].function)(measured, reference)


def _votes(rows: Features, public: Public, models: Sequence[Checkpoint]) -> np.ndarray:
    """Share of each class near the rows, by the client's model or the first model."""
    z = public.features(choose_model(rows, models), "z")
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
