"""local-train: what a client does in a round."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from furlkit import runtime, training
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.data.datasets import ImageSet
from furlkit.data.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import (
    Checkpoint,
    CheckpointFacts,
    read_checkpoint,
    write_checkpoint,
)
from furlkit.files.facts import Provenance
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import PrivateFacts, read_private, write_private
from furlkit.files.progress import ProgressFile
from furlkit.loading import (
    Tensors,
    architecture_of,
    fresh_statistics,
    load_net,
    tensors_of,
    view_of,
)
from furlkit.loop import Epoch, LossOf, Plan
from furlkit.matching import check_channels, check_dataset
from furlkit.nets import Net
from furlkit.objectives import autoencoder, rotation, simclr, supervised
from furlkit.objectives.proximal import proximal_term
from furlkit.runtime import Runtime
from furlkit.training import Handling
from furlkit.updates.replace import replace as replace_update
from furlkit.weights import is_batchnorm_statistic


@dataclass(frozen=True)
class Objective:
    """A step, the head it trains, the options it reads, and whether it sees labels."""

    step: Callable[..., tuple[dict[str, Tensor], Tensor]]
    head: str
    options: dict[str, Any] = field(default_factory=dict)
    labels: bool = False


OBJECTIVES = {
    "simclr": Objective(simclr.step, "projector", {"temperature": 0.5, "form": "full"}),
    "rotation": Objective(rotation.step, "rotation"),
    "autoencoder": Objective(autoencoder.step, "decoder"),
    "supervised": Objective(supervised.step, "classifier", labels=True),
}
UPDATES = {"replace": replace_update}


@dataclass(frozen=True)
class Options:
    """`output`, `private` and `private_out` may hold `{client}`.

    `settings` are the objective's own options; None stands for its default.
    """

    partition: Path
    model: Path
    clients: tuple[int, ...]
    output: str
    data: Source
    objective: str
    settings: dict[str, Any]
    augmentation: Augmentation
    plan: Plan
    update: str = "replace"
    proximal: float = 0.0
    private: str | None = None
    private_out: str | None = None
    handling: Handling = Handling()
    runtime: Runtime = Runtime()
    seed: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class Doors:
    """Everything local-train was given, opened and checked."""

    options: Options
    partition: Partition
    model: Checkpoint
    images: ImageSet
    settings: dict[str, Any]

    @property
    def round(self) -> int:
        """The round that is being trained."""
        return self.model.facts.round + 1


def run(options: Options) -> list[tuple[str, dict[str, Any]]]:
    """Train one client after the other from the global model."""
    doors = _open(options)
    if options.dry_run:
        return [_plan(doors, client) for client in options.clients]
    results = [_train(doors, client) for client in options.clients]
    # Only now: a restart must not train again the clients that were done already.
    for client in options.clients:
        ProgressFile(_fill(options.output, client), _made(doors, client)).discard()
    return results


def _open(options: Options) -> Doors:
    objective = OBJECTIVES[options.objective]
    settings = _settings(options, objective)
    partition = read_partition(options.partition)
    model = read_checkpoint(options.model)
    _check_model(options, objective, partition, model)
    images = options.data.images()
    check_dataset(partition, images)
    architecture = architecture_of(model.path, model.facts)
    check_channels(images, architecture, model.path)
    if objective.labels:
        _check_labels(options, images, architecture.classifier or 0)
    for client in options.clients:
        if len(partition.of(client)) < 2:
            raise InputError(
                f"{options.partition}: client {client} has "
                f"{len(partition.of(client))} images, training needs 2 at least"
            )
        if options.private:
            read_private(_fill(options.private, client), client)
    return Doors(options, partition, model, images, settings)


def _settings(options: Options, objective: Objective) -> dict[str, Any]:
    given = {k: v for k, v in options.settings.items() if v is not None}
    for name in given.keys() - objective.options.keys():
        raise UsageError(f"--{name} means nothing to --objective {options.objective}")
    if len(options.clients) > 1 and "{client}" not in options.output:
        raise UsageError(
            f"-o {options.output}: {len(options.clients)} clients need a pattern, "
            "like -o 'exp/r001/client_{client}.safetensors'"
        )
    return {**objective.options, **given}


def _check_model(
    options: Options, objective: Objective, partition: Partition, model: Checkpoint
) -> None:
    if model.facts.role != "global":
        raise InputError(
            f"{model.path}: is a checkpoint of role {model.facts.role}, "
            "the global model of the last round was wanted"
        )
    if model.facts.partition not in (None, partition.content):
        raise InputError(
            f"{model.path}: its clients were trained under another partition than "
            f"{partition.path}; use that one, or start anew with init --from"
        )
    if not model.facts.architecture.get(objective.head):
        raise InputError(
            f"{model.path}: has no {objective.head}, which --objective "
            f"{options.objective} trains; make it with init --objective "
            f"{options.objective}"
        )


def _check_labels(options: Options, images: ImageSet, classes: int) -> None:
    if images.labels is None:
        raise InputError(
            f"{images.name}: has no labels, which supervised training needs"
        )
    if images.classes > classes:
        raise InputError(
            f"{images.name}: has {images.classes} classes, {options.model} has a "
            f"classifier of {classes}; make it with init --classes {images.classes}"
        )


def _train(doors: Doors, client: int) -> tuple[str, dict[str, Any]]:
    options, output = doors.options, _fill(doors.options.output, client)
    made = _made(doors, client)
    device = runtime.start(options.runtime)
    net = load_net(doors.model, device, _own(doors, client))
    training.prepare(net, options.handling)
    index = doors.partition.of(client)
    view = view_of(doors.model, options.augmentation)
    labelled = OBJECTIVES[options.objective].labels
    labels = doors.images.labels if labelled else None
    job = training.Job(
        title=f"client {client}",
        module=net,
        loss_of=_loss_of(doors, net),
        images=Images(doors.images.images, labels, index, view, device),
        plan=options.plan,
        purpose=(options.seed, "local-train", doors.round, client),
    )
    last = training.run(job, output, made, options.handling, len(options.clients) > 1)
    return _write(doors, client, tensors_of(net), last)


def _loss_of(doors: Doors, net: Net) -> LossOf:
    """The objective's step, and the terms that are added to it."""
    options = doors.options
    step = partial(OBJECTIVES[options.objective].step, net, **doors.settings)
    w_g = [p.detach().clone() for p in net.parameters()] if options.proximal else []

    def loss_of(batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        terms, z = step(batch)
        if options.proximal:
            w = list(net.parameters())
            terms["proximal"] = proximal_term(w, w_g, options.proximal)
        return terms, z

    return loss_of


def _own(doors: Doors, client: int) -> Tensors:
    """What the client adds to a global model that has no BatchNorm statistics."""
    if not doors.model.facts.left_out:
        return {}
    fresh = fresh_statistics(architecture_of(doors.model.path, doors.model.facts))
    if not doors.options.private:
        return fresh
    own = read_private(_fill(doors.options.private, client), client).tensors
    return UPDATES[doors.options.update](own, fresh)


def _write(
    doors: Doors, client: int, tensors: Tensors, last: Epoch
) -> tuple[str, dict[str, Any]]:
    options, made = doors.options, _made(doors, client)
    examples = len(doors.partition.of(client))
    data: dict[str, Any] = {"client": client, "round": doors.round}
    if options.private_out:
        own = {k: v for k, v in tensors.items() if is_batchnorm_statistic(k)}
        holds = PrivateFacts(client, doors.round, ["BatchNorm statistics"])
        path = _fill(options.private_out, client)
        data["private"] = write_private(path, own, holds, made).content
    model = doors.model
    facts = CheckpointFacts(
        role="client",
        round=doors.round,
        architecture=model.facts.architecture,
        mean=model.facts.mean,
        std=model.facts.std,
        client=client,
        examples=examples,
        parent=model.content,
        partition=doors.partition.content,
        loss=sum(last.losses.values()),
    )
    output = _fill(options.output, client)
    data["content"] = write_checkpoint(output, tensors, facts, made).content
    data.update(examples=examples, **asdict(last))
    line = (
        f"{output}: client {client}, round {doors.round}, {examples:,} images, "
        f"loss {facts.loss:.4f}"
    )
    return line, data


def _made(doors: Doors, client: int) -> Provenance:
    o = doors.options
    words = {
        "objective": o.objective,
        "settings": doors.settings,
        "augmentation": asdict(o.augmentation),
        "plan": asdict(o.plan),
        "update": o.update,
        "proximal": o.proximal,
        "channels_last": o.handling.channels_last,
        "compile": o.handling.compile,
        "device": runtime.start(o.runtime).type,
        "threads": o.runtime.threads,
    }
    inputs = {"global": doors.model.content, "partition": doors.partition.content}
    if o.private:
        inputs["private"] = read_private(_fill(o.private, client), client).content
    return Provenance("local-train", words, o.seed, inputs)


def _plan(doors: Doors, client: int) -> tuple[str, dict[str, Any]]:
    examples, plan = len(doors.partition.of(client)), doors.options.plan
    output = str(_fill(doors.options.output, client))
    line = (
        f"would write {output}: client {client}, round {doors.round}, {examples:,} "
        f"images, {plan.epochs} epochs of {doors.options.objective}"
    )
    return line, {"client": client, "examples": examples, "output": output}


def _fill(pattern: str, client: int) -> Path:
    return Path(pattern.replace("{client}", str(client)))
