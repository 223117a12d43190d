"""Whether images, partition and model belong together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from furlkit import console
from furlkit.catalogue import Objective
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import comparable, same_dataset
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.partition import Partition
from furlkit.files.private import Private
from furlkit.files.targets import Targets
from furlkit.models.architecture import Architecture
from furlkit.models.loading import architecture_of, full_architecture

if TYPE_CHECKING:
    from furlkit.files.ensemble import Ensemble
    from furlkit.files.features import Features

SAME_NET = ("encoder", "width", "stem", "image_size", "channels")


def check_dataset(partition: Partition, images: ImageSet) -> None:
    """The partition must have been drawn over these images."""
    theirs = partition.facts.dataset
    same_size = theirs["examples"] == images.fingerprint["examples"]
    if same_size and not comparable(theirs, images.fingerprint):
        console.warn(
            f"{partition.path}: was made from labels alone and {images.name} has none, "
            "so nothing but the number of images could be compared"
        )
        return
    if difference := same_dataset(theirs, images.fingerprint):
        raise InputError(
            f"{partition.path}: was made for another dataset than {images.name}: "
            f"{difference}; re-create the partition, or give the --data it was made for"
        )


def check_channels(images: ImageSet, model: Checkpoint) -> None:
    """Images have the channels of the net; grey images can feed a net for colour too."""
    found = images.images.shape[3]
    channels = architecture_of(model.path, model.facts).channels
    if (found, channels) == (3, 1):
        raise InputError(
            f"{model.path}: takes grey images, {images.name} has colour; create the "
            "model with init --channels 3"
        )
    if found != channels and (found, channels) != (1, 3):
        raise InputError(
            f"{model.path}: takes images of {channels} channels, {images.name} has "
            f"{found}; create the model with init --channels {found}"
        )


def check_start(
    model: Checkpoint, partition: Partition | None, own: ClientId | None
) -> None:
    """Clients start from a global model, whose own clients had the same partition.

    A client `own` continues from its own last model or, at first, from a global one.
    """
    facts = model.facts
    if own is not None and facts.role == "client" and facts.client != own:
        raise InputError(
            f"{model.path}: is the model of client {facts.client}; client {own} "
            "continues from its own"
        )
    if facts.role != "global" and (own is None or facts.role != "client"):
        expected = "the global model" if own is None else "the client's own model"
        raise InputError(
            f"{model.path}: is a checkpoint of role {facts.role}, expected {expected} "
            "of the last round"
        )
    if partition and facts.partition not in (None, partition.content):
        raise InputError(
            f"{model.path}: its clients were trained under another partition than "
            f"{partition.path}; use that one, or start over with init --from"
        )


def check_labels(images: ImageSet, classes: int, model: Checkpoint) -> None:
    """Supervised training needs labels, and a classifier that has their classes."""
    if images.labels is None:
        raise InputError(f"{images.without_labels}, which supervised training needs")
    if images.classes > classes:
        raise InputError(
            f"{images.name}: has {images.classes} classes, {model.path} has a classifier "
            f"of {classes}; create it with init --classes {images.classes}"
        )


def check_heads(
    model: Checkpoint, architecture: Architecture, objective: Objective
) -> None:
    """The model must have every head that the objective trains."""
    for head in objective.head_names:
        if head not in architecture.heads:
            raise InputError(
                f"{model.path}: has no {head}, which --objective {objective.name} "
                f"trains; add it with init --objective {objective.name} --from "
                f"{model.path}"
            )


def check_size(source: str, client: ClientId, index: np.ndarray) -> None:
    """BatchNorm and contrast need two images."""
    if len(index) < 2:
        raise InputError(
            f"{source}: client {client} has {len(index)} images; training "
            "needs at least 2"
        )


def check_batches(source: str, sizes: Mapping[ClientId, int], batch_size: int) -> None:
    """Warn of clients with fewer images than a batch, in one line."""
    small = [client for client, images in sizes.items() if images < batch_size]
    if small:
        others = f"{len(small) - 1:,} other client{'s' * (len(small) > 2)}"
        more = f", and so for {others}" * (len(small) > 1)
        whose = f"client {small[0]} in {source}{more}"
        check_batch(whose, sizes[small[0]], batch_size)


def check_batch(whose: str, images: int, batch_size: int) -> None:
    """Warn of fewer images to train on than a batch has."""
    if images < batch_size:
        console.warn(
            f"--batch-size {batch_size}: is more than the {images:,} images of {whose}; "
            "a batch has all of them"
        )


def check_augmentation(how: Augmentation, model: Checkpoint) -> None:
    """Refuse colours of images without, and warn of a cutout that hides whole images."""
    architecture = architecture_of(model.path, model.facts)
    how.check_channels(architecture.channels)
    side, size = how.cutout, architecture.image_size
    if side >= size:
        console.warn(
            f"--cutout {side}: hides {'all' if side >= 2 * size - 1 else 'some'} images "
            f"of {size} x {size} pixels, the size of {model.path}, whole; lower it, to "
            f"{size // 2} at most"
        )


def check_private(private: Private, model: Checkpoint, used: bool) -> None:
    """What a client kept must be from before this round.

    With `used` it is known to serve in some rounds, if not in this one.
    """
    this_round = model.facts.round + 1
    if private.facts.round >= this_round:
        raise InputError(
            f"{private.path}: is of round {private.facts.round}, and this is round "
            f"{this_round}; give the client's private file of an earlier round"
        )
    if used:
        return
    both = private.tensors.keys() & model.tensors.keys()
    if private.tensors and both == private.tensors.keys() and not private.memory:
        console.warn(
            f"{private.path}: holds BatchNorm statistics or parts that {model.path} has "
            "too; the global model's are used; aggregate with --bn keep, or train with "
            "--send, to let clients keep their own"
        )


def check_images(
    file: "Targets | Ensemble | Features", images: ImageSet, cure: str
) -> None:
    """The rows of a file must be of these images; `cure` says which ones to give."""
    if difference := same_dataset(file.facts.dataset, images.fingerprint):
        raise InputError(
            f"{file.path}: was made of other images than {images.name}: {difference}; "
            f"{cure}"
        )
    index, count = file.index, len(images.images)
    low, high = (index.min(), index.max()) if len(index) else (0, -1)
    if len(index) < 2 or low < 0 or high >= count:
        raise InputError(
            f"{file.path}: names {len(index)} images, {low} to {high}; expected at least "
            f"2, all among the {count} of {images.name}"
        )


def check_targets(targets: Targets, images: ImageSet, model: Checkpoint) -> None:
    """The targets must be of these images, and of a net like the model."""
    _check_same_net(targets, model)
    check_images(targets, images, "give the --align-data that pretrain-align was given")
    check_channels(images, model)


def _check_same_net(targets: Targets, model: Checkpoint) -> None:
    """h and z compare only between nets that are built alike and see alike."""
    theirs = full_architecture(targets.path, targets.facts)
    ours = architecture_of(model.path, model.facts)
    pairs = {key: (getattr(theirs, key), getattr(ours, key)) for key in SAME_NET}
    pairs["projector"] = theirs.heads.get("projector"), ours.heads.get("projector")
    pairs["projector norm"] = theirs.projector_norm, ours.projector_norm
    pairs["mean"] = targets.facts.mean, model.facts.mean
    pairs["std"] = targets.facts.std, model.facts.std
    for layer, width in (("h", ours.feature_dim), ("z", ours.z_dim)):
        found = getattr(targets, layer).shape[1]
        pairs[f"{layer} of"] = f"{found} numbers", f"{width} numbers"
    for what, (found, expected) in pairs.items():
        if found != expected:
            raise InputError(
                f"{targets.path}: was made by a net with {what} {found}, {model.path} has "
                f"{expected}; create the targets with pretrain-align {model.path}"
            )
