"""Whether images, partition and model belong together."""

from pathlib import Path

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import comparable, same_dataset
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.partition import Partition
from furlkit.files.private import Private
from furlkit.files.targets import Targets
from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import architecture_of, check_tensors

ALIKE = ("encoder", "width", "stem", "image_size", "channels", "projector")


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
    difference = same_dataset(theirs, images.fingerprint)
    if difference:
        raise InputError(
            f"{partition.path}: was made for another dataset than {images.name}: "
            f"{difference}; make the partition anew, or give the --data it was made for"
        )


def check_channels(images: ImageSet, architecture: Architecture, model: Path) -> None:
    """Grey images can feed a net for colour, not the other way round."""
    channels = images.images.shape[3]
    if channels > architecture.channels:
        raise InputError(
            f"{model}: takes grey images, {images.name} has colour; make the model "
            "with init --channels 3"
        )


def check_global(model: Checkpoint, partition: Partition) -> None:
    """Clients start from a global model, whose own clients had the same partition."""
    if model.facts.role != "global":
        raise InputError(
            f"{model.path}: is a checkpoint of role {model.facts.role}, "
            "the global model of the last round was wanted"
        )
    _check_partition(model, partition)


def check_own(model: Checkpoint, partition: Partition, client: int) -> None:
    """A client that carries on has its own last model, or, at first, any global one."""
    if model.facts.role == "client" and model.facts.client != client:
        raise InputError(
            f"{model.path}: is the model of client {model.facts.client}, client "
            f"{client} carries on from its own"
        )
    if model.facts.role not in ("client", "global"):
        raise InputError(
            f"{model.path}: is a checkpoint of role {model.facts.role}, the client's "
            "own model of its last round was wanted"
        )
    _check_partition(model, partition)


def _check_partition(model: Checkpoint, partition: Partition) -> None:
    if model.facts.partition not in (None, partition.content):
        raise InputError(
            f"{model.path}: its clients were trained under another partition than "
            f"{partition.path}; use that one, or start anew with init --from"
        )


def check_labels(images: ImageSet, classes: int, model: Path) -> None:
    """Supervised training needs labels, and a classifier that has their classes."""
    if images.labels is None:
        raise InputError(
            f"{images.name}: has no labels, which supervised training needs"
        )
    if images.classes > classes:
        raise InputError(
            f"{images.name}: has {images.classes} classes, {model} has a classifier "
            f"of {classes}; make it with init --classes {images.classes}"
        )


def check_head(model: Checkpoint, head: str, objective: str) -> None:
    """The model must have the head that the objective trains."""
    if not model.facts.architecture.get(head):
        raise InputError(
            f"{model.path}: has no {head}, which --objective {objective} trains; "
            f"make it with init --objective {objective}"
        )


def check_size(partition: Partition, client: int) -> None:
    """BatchNorm and contrast need two images."""
    examples = len(partition.of(client))
    if examples < 2:
        raise InputError(
            f"{partition.path}: client {client} has {examples} images, training "
            "needs 2 at least"
        )


def check_private(private: Private, model: Checkpoint) -> None:
    """What a client kept must be from before this round, and of the same net."""
    this_round = model.facts.round + 1
    if private.facts.round >= this_round:
        raise InputError(
            f"{private.path}: is of round {private.facts.round}, and this is round "
            f"{this_round}; give the client's private file of an earlier round"
        )
    net = build(architecture_of(model.path, model.facts), None)
    check_tensors(private.path, net, private.weights)
    if private.weights.keys() == private.tensors.keys() and not model.facts.left_out:
        console.warn(
            f"{private.path}: holds {', '.join(private.facts.holds)}, and so does "
            f"{model.path}, which wins; aggregate with --bn keep to let clients keep "
            "their own"
        )


def check_targets(targets: Targets, images: ImageSet, model: Checkpoint) -> None:
    """The targets must be of these images, and of a net like the model."""
    _check_same_net(targets, model)
    difference = same_dataset(targets.facts.dataset, images.fingerprint)
    if difference:
        raise InputError(
            f"{targets.path}: was made of other images than {images.name}: {difference}; "
            "give the --align-data that pretrain-align was given"
        )
    index = targets.index
    low, high = (index.min(), index.max()) if len(index) else (0, -1)
    if not 0 <= low <= high < len(images.images):
        raise InputError(
            f"{targets.path}: names images {low} to {high}, {images.name} has "
            f"{len(images.images)}"
        )
    check_channels(images, architecture_of(model.path, model.facts), model.path)


def _check_same_net(targets: Targets, model: Checkpoint) -> None:
    """h and z compare only between nets that are built alike and see alike."""
    theirs, ours = targets.facts.architecture, model.facts.architecture
    for part in ALIKE:
        if theirs.get(part) != ours.get(part):
            raise InputError(
                f"{targets.path}: was made by a net with {part} {theirs.get(part)}, "
                f"{model.path} has {ours.get(part)}; make the targets with "
                f"pretrain-align {model.path}"
            )
    for name in ("mean", "std"):
        if getattr(targets.facts, name) != getattr(model.facts, name):
            raise InputError(
                f"{targets.path}: its net normalises images by {name} "
                f"{getattr(targets.facts, name)}, {model.path} by "
                f"{getattr(model.facts, name)}"
            )
    a = architecture_of(model.path, model.facts)
    for name, width in (("h", a.feature_dim), ("z", (a.projector or (0,))[-1])):
        found = getattr(targets, name).shape[1]
        if found != width:
            raise InputError(
                f"{targets.path}: {name} has {found} numbers, the model's has {width}"
            )
