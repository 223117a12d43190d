"""Checks by headers that the inputs of an audit belong together.

Wrong inputs give a low number, as a harmless file does. So refuse a mistake that the
headers prove, and warn about a mistake that the headers suggest.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeGuard

from furlkit import console
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import comparable, same_dataset
from furlkit.errors import FurlkitError, InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.container.read import Container
from furlkit.files.container.write import record_of
from furlkit.files.features import Features
from furlkit.files.journal import Journal
from furlkit.files.partition import Partition
from furlkit.files.published import DATASET, published_by


def check_started_from(model: Checkpoint, parent: Checkpoint) -> None:
    """Check that the parent is the model before the training of the audited model."""
    recorded = model.facts.parent
    if recorded is None:
        console.warn(
            f"{model.path}: the header names no parent, so --parent {parent.path} is not "
            "checked; a wrong parent gives a low number"
        )
    elif recorded != parent.content:
        raise InputError(
            f"{parent.path}: has the content {_begin(parent.content)}, {model.path} was "
            f"trained from the model {_begin(recorded)}; give the model before training "
            "as --parent"
        )


def check_same_partition(path: Path, recorded: str | None, content: str | None) -> None:
    """Check that --partition, if given, is the partition in the header of a file."""
    if recorded and content and recorded != content:
        raise InputError(
            f"{path}: the client was trained under the partition {_begin(recorded)}, "
            f"--partition is {_begin(content)}; give the partition of the training"
        )


def check_members(
    model: Checkpoint, content: str | None, part: str, members: int, images: ImageSet
) -> None:
    """Check members of a model; `content`: of --partition; `members`: before drawing."""
    facts, path = model.facts, model.path
    check_same_partition(path, facts.partition, content)
    if facts.partition and content is None:
        console.warn(
            f"{path}: was trained under a partition, and without --partition every image "
            "is taken for a member; give --partition and --part"
        )
    elif content and facts.role == "client" and part != str(facts.client):
        console.warn(
            f"--part {part}: the members are of {_owner(part)}, {path} is the model of "
            f"client {facts.client}; give --part {facts.client}"
        )
    elif facts.examples and _differs(model, members):
        console.warn(
            f"{images.name}: has {members:,} members, {path} was trained on "
            f"{facts.examples:,} images; give the images of the training as --members"
        )
    elif content is None:
        _check_images(model, images)


def _differs(model: Checkpoint, members: int) -> bool:
    """Return whether the members cannot be the training images of the model.

    The members of a global model may be the images of one client. distill writes the
    number of public images.
    """
    examples = model.facts.examples or 0
    if model.header.stage == "distill":
        return False
    return members > examples or (model.facts.role == "client" and members < examples)


def check_partition_of_rows(
    rows: Features, stage: str, known: Partition | None
) -> None:
    """Check that --partition is the partition of the training that wrote the rows.

    Rows of embed record the positions of images, and need no partition.
    """
    content = known.content if known else None
    check_same_partition(rows.path, rows.partition, content)
    if rows.facts.dataset:
        return
    if rows.partition and known is None:
        raise InputError(
            f"{rows.path}: the client was trained under the partition "
            f"{_begin(rows.partition)}, and no partition is given, so other images would "
            "be taken for the client's; give --partition"
        )
    if known and rows.partition is None and stage == "local-train":
        raise InputError(
            f"{rows.path}: the client was trained without a partition, --partition is "
            f"{known.path}; leave out --partition"
        )


def is_own_model(rows: Features, model: Checkpoint, source: str | None = None) -> bool:
    """Return whether the model is the client's, trained in the round of the rows.

    `source`: content of the model that computed the rows, if the header has the hash.
    """
    ours, theirs = rows.facts, model.facts
    if theirs.role != "client" or theirs.client != ours.client:
        return False
    if source is not None:
        return source == model.content
    pairs = [
        (ours.round, theirs.round),
        (ours.parent, theirs.parent),
        (ours.run, theirs.run),
        (rows.partition, theirs.partition),
    ]
    return all(one == other or None in (one, other) for one, other in pairs)


def check_model_of_rows(rows: Features, model: Checkpoint, own: bool) -> None:
    """Warn about a model of the same client from another round or training."""
    theirs, ours = model.facts, rows.facts
    if own or theirs.role != "client" or theirs.client != ours.client:
        return
    there = f"of round {theirs.round}, from the model {_begin(theirs.parent)}"
    here = f"of round {ours.round}, from the model {_begin(ours.parent)}"
    console.warn(
        f"{model.path}: is {there}, {rows.path} is {here}; another model than the "
        "client's gives a low number; give the model of the rows' round"
    )


def check_models_of_rows(
    every: Sequence[Features], models: Sequence[Checkpoint]
) -> None:
    """Warn about rows that are compared by a model of another client or round."""
    for rows in every:
        model = choose_model(rows, models)
        check_model_of_rows(rows, model, is_own_model(rows, model))
        if model.facts.role == "client" and model.facts.client != rows.facts.client:
            console.warn(
                f"{model.path}: is the model of client {model.facts.client}, {rows.path} "
                f"is of client {rows.facts.client}; another client's model gives a low "
                f"number; give --model of client {rows.facts.client}"
            )


def choose_model(rows: Features, models: Sequence[Checkpoint]) -> Checkpoint:
    """Return the client's model of the round, else of the client, else the first."""
    of_client = [each for each in models if each.facts.client == rows.facts.client]
    own = [each for each in of_client if is_own_model(rows, each)]
    return [*own, *of_client, *models][0]


def check_number(model: Checkpoint, members: int, images: ImageSet) -> None:
    """Check that a client's own model was trained on this number of images."""
    examples = model.facts.examples
    if examples is not None and examples != members:
        raise InputError(
            f"{images.name}: has {members:,} images of the client, {model.path} was "
            f"trained on {examples:,}; give the images of the training as --candidates"
        )
    if model.facts.partition is None:
        _check_images(model, images)


def is_recorded(path: Path, content: str, images: ImageSet) -> bool:
    """Return whether the record beside a site's file confirms the images; raise if not.

    Without a record, or with a record of other files, nothing is known.
    """
    record = record_of(path)
    try:
        header = Container(record).header
    except FurlkitError:
        return False
    dataset = header.facts.get(DATASET)
    if published_by(header) != content or not _comparable(dataset, images):
        return False
    if difference := same_dataset(dataset, images.fingerprint):
        raise InputError(
            f"{images.name}: has other images than {record} names: {difference}; give "
            "the images of the training"
        )
    return True


def _check_images(model: Checkpoint, images: ImageSet) -> None:
    """Compare images with the record or the journal beside a site's model, if present.

    The journal is no proof: a training that was stopped may have begun the journal anew.
    """
    if is_recorded(model.path, model.content, images):
        return
    journal = Journal(model.path)
    named = [e for e in journal.read() if e.get("event") == "images"]
    dataset = named[-1].get("dataset") if named else None
    if not _comparable(dataset, images):
        console.info(
            f"{model.path}: without the record or the journal of the training, the images "
            f"of {images.name} are not checked: other images give a meaningless result"
        )
        return
    if difference := same_dataset(dataset, images.fingerprint):
        console.warn(
            f"{journal.path}: names other images than {images.name}: {difference}; give "
            "the images of the training"
        )


def _comparable(dataset: Any, images: ImageSet) -> TypeGuard[dict[str, Any]]:
    """Return whether a fingerprint from a file can be compared with the images'."""
    if not isinstance(dataset, dict) or type(dataset.get("examples")) is not int:
        return False
    same_size = dataset["examples"] == images.fingerprint["examples"]
    return not same_size or bool(comparable(dataset, images.fingerprint))


def _owner(part: str) -> str:
    return f"client {part}" if part.isdecimal() else f"part {part}"


def _begin(content: str | None) -> str:
    """The first digits of a content hash."""
    return content[:12] if content else "unknown"
