"""Checks that images, partition and model belong together."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from furlkit import console
from furlkit.catalogue import Objective
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import comparable, same_dataset
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.partition import Partition
from furlkit.files.private import Private
from furlkit.files.targets import Targets
from furlkit.models.description import Architecture, architecture_of, full_architecture

if TYPE_CHECKING:
    from furlkit.files.ensemble import Ensemble
    from furlkit.files.features import Features
    from furlkit.files.similarity import Similarity

SAME_NET = ("encoder", "width", "stem", "image_size", "channels")


def check_dataset(partition: Partition, images: ImageSet) -> None:
    """Check that the partition was drawn over these images."""
    theirs = partition.facts.dataset
    same_size = theirs["examples"] == images.fingerprint["examples"]
    if same_size and not comparable(theirs, images.fingerprint):
        console.warn(
            f"{partition.path}: was made from labels alone and {images.name} has none, "
            "so only the number of images could be compared"
        )
        return
    if difference := same_dataset(theirs, images.fingerprint):
        raise InputError(
            f"{partition.path}: was made for another dataset than {images.name}: "
            f"{difference}; re-create the partition, or give the partition's --data"
        )


def check_channels(images: ImageSet, model: Checkpoint) -> None:
    """Check the channels of the images; a colour network accepts grey images too."""
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
    """Check that clients start from a global model trained under this partition.

    A client `own` continues from its last model or, at first, from a global model.
    """
    facts = model.facts
    if own is not None and facts.role == "client" and facts.client != own:
        raise InputError(
            f"{model.path}: is the model of client {facts.client}; give the model of "
            f"client {own}"
        )
    if facts.role != "global" and (own is None or facts.role != "client"):
        expected = "the global model" if own is None else "the client's own model"
        raise InputError(
            f"{model.path}: is a checkpoint of role {facts.role}, expected {expected} "
            "of the last round"
        )
    if partition and facts.partition not in (None, partition.content):
        raise InputError(
            f"{model.path}: clients were trained under another partition than "
            f"{partition.path}; give their partition, or start over with init --from"
        )


def check_continued(model: Checkpoint, update: str) -> None:
    """Check that a client trains the client's model of this round again."""
    if model.facts.role != "client":
        raise InputError(
            f"{model.path}: is a {model.facts.role} model; --update {update} trains the "
            "client's own model of this round once more"
        )


def check_labels(images: ImageSet, classes: int, model: Checkpoint) -> None:
    """Check for labels, and for a classifier with enough classes."""
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
    """Check that the model has the heads of the objective."""
    for head in objective.head_names:
        if head not in architecture.heads:
            raise InputError(
                f"{model.path}: has no {head}, which --objective {objective.name} "
                f"trains; add it with init --objective {objective.name} --from "
                f"{model.path}"
            )


def check_size(source: str, client: ClientId, index: np.ndarray) -> None:
    """Check for two images, required by BatchNorm and contrast."""
    if len(index) < 2:
        raise InputError(
            f"{source}: client {client} has {len(index)} images; training "
            "needs at least 2"
        )


def check_batches(source: str, sizes: Mapping[ClientId, int], batch_size: int) -> None:
    """Warn about clients with fewer images than a batch, in one line."""
    small = [client for client, images in sizes.items() if images < batch_size]
    if small:
        others = f"{len(small) - 1:,} other client{'s' * (len(small) > 2)}"
        more = f", and of {others}" * (len(small) > 1)
        whose = f"client {small[0]} in {source}{more}"
        check_batch(whose, sizes[small[0]], batch_size)


def check_batch(whose: str, images: int, batch_size: int) -> None:
    """Warn if a batch has more images than the training set."""
    if images < batch_size:
        console.warn(
            f"--batch-size {batch_size}: is more than the {images:,} images of {whose}; "
            "a batch has all images"
        )


def check_augmentation(how: Augmentation, model: Checkpoint) -> None:
    """Refuse colour changes of grey images; warn if a cutout hides whole images."""
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
    """Check that a private file is from before this round.

    `used`: the update reads the file in other rounds, so do not warn.
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
    file: "Targets | Ensemble | Features | Similarity", images: ImageSet, cure: str
) -> None:
    """Check that the rows of a file are of these images; `cure` is the advice."""
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
            f"2 among the {count} of {images.name}"
        )


def check_targets(targets: Targets, images: ImageSet, model: Checkpoint) -> None:
    """Check that the targets are of these images, and of a network like the model."""
    _check_same_net(targets, model)
    check_images(targets, images, "give the --align-data of pretrain-align")
    check_channels(images, model)


def _check_same_net(targets: Targets, model: Checkpoint) -> None:
    """Check for equal networks and inputs: only then are h and z comparable."""
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
