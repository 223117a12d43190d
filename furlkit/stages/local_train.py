"""local-train: what a client does in a round."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from furlkit import runtime, training
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.data.datasets import ImageSet
from furlkit.data.source import Source
from furlkit.errors import UsageError
from furlkit.files.checkpoint import (
    Checkpoint,
    CheckpointFacts,
    read_checkpoint,
    write_checkpoint,
)
from furlkit.files.facts import Provenance
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import Private, PrivateFacts, read_private, write_private
from furlkit.files.progress import ProgressFile
from furlkit.loading import (
    Tensors,
    architecture_of,
    fitting_net,
    fresh_statistics,
    load_net,
    tensors_of,
    view_of,
)
from furlkit.loop import Epoch, LossOf, Plan
from furlkit.matching import (
    check_channels,
    check_dataset,
    check_global,
    check_head,
    check_labels,
    check_private,
    check_size,
)
from furlkit.nets import Net
from furlkit.objectives import autoencoder, rotation, simclr, supervised
from furlkit.objectives.proximal import proximal_term
from furlkit.patterns import check_patterns, fill
from furlkit.runtime import Runtime
from furlkit.training import Handling
from furlkit.updates import replace as replacing
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
UPDATES = {"replace": replacing.replace}


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

    @property
    def plan(self) -> Plan:
        """A schedule of several rounds is taken up where the last round left it."""
        plan = self.options.plan
        return replace(plan, first_round=self.round - 1) if plan.rounds > 1 else plan


def run(options: Options) -> list[tuple[str, dict[str, Any]]]:
    """Train one client after the other from the global model."""
    doors = _open(options)
    if options.dry_run:
        return [_plan(doors, client) for client in options.clients]
    results = [_train(doors, client) for client in options.clients]
    # Only now: a restart must not train again the clients that were done already.
    for client in options.clients:
        ProgressFile(fill(options.output, client), _made(doors, client)).discard()
    return results


def _open(options: Options) -> Doors:
    objective = OBJECTIVES[options.objective]
    settings = _settings(options, objective)
    check_patterns(
        options.clients,
        reads={"--private": options.private},
        writes={"-o": options.output, "--private-out": options.private_out},
        inputs=(options.model, options.partition),
    )
    runtime.start(options.runtime)
    partition = read_partition(options.partition)
    model = read_checkpoint(options.model)
    check_global(model, partition)
    check_head(model, objective.head, options.objective)
    images = options.data.images()
    check_dataset(partition, images)
    architecture = architecture_of(model.path, model.facts)
    check_channels(images, architecture, model.path)
    if objective.labels:
        check_labels(images, architecture.classifier or 0, model.path)
    doors = Doors(options, partition, model, images, settings)
    _check_round(doors)
    for client in options.clients:
        check_size(partition, client)
        if private := _private(doors, client):
            check_private(private, model)
    fitting_net(_start(doors, options.clients[0]))
    return doors


def _settings(options: Options, objective: Objective) -> dict[str, Any]:
    given = {k: v for k, v in options.settings.items() if v is not None}
    for name in given.keys() - objective.options.keys():
        raise UsageError(f"--{name} means nothing to --objective {options.objective}")
    return {**objective.options, **given}


def _check_round(doors: Doors) -> None:
    plan = doors.plan
    if plan.schedule == "cosine" and plan.first_round >= plan.rounds:
        raise UsageError(
            f"--schedule-rounds {plan.rounds}: this is round {doors.round}, and a "
            "cosine schedule has come down to 0 by then; give the number of all rounds"
        )


def _train(doors: Doors, client: int) -> tuple[str, dict[str, Any]]:
    options, output = doors.options, fill(doors.options.output, client)
    made = _made(doors, client)
    device = runtime.start(options.runtime)
    net = load_net(_start(doors, client), device)
    training.prepare(net, options.handling)
    index = doors.partition.of(client)
    layout = options.handling.channels_last
    view = view_of(doors.model, options.augmentation, layout)
    labelled = OBJECTIVES[options.objective].labels
    labels = doors.images.labels if labelled else None
    job = training.Job(
        title=f"client {client}",
        module=net,
        loss_of=_loss_of(doors, net),
        images=Images(doors.images.images, labels, index, view, device),
        plan=doors.plan,
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


def _start(doors: Doors, client: int) -> Checkpoint:
    """What the client starts the round from."""
    model, private = doors.model, _private(doors, client)
    own: Tensors = {}
    if model.facts.left_out:
        own = fresh_statistics(architecture_of(model.path, model.facts))
    if private:
        own = {**own, **private.tensors}
    return replace(model, tensors=UPDATES[doors.options.update](model.tensors, own))


def _private(doors: Doors, client: int) -> Private | None:
    pattern = doors.options.private
    return read_private(fill(pattern, client), client) if pattern else None


def _write(
    doors: Doors, client: int, tensors: Tensors, last: Epoch
) -> tuple[str, dict[str, Any]]:
    options, made = doors.options, _made(doors, client)
    examples = len(doors.partition.of(client))
    data: dict[str, Any] = {"client": client, "round": doors.round}
    if options.private_out:
        own = {k: v for k, v in tensors.items() if is_batchnorm_statistic(k)}
        holds = PrivateFacts(client, doors.round, ["BatchNorm statistics"])
        path = fill(options.private_out, client)
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
    output = fill(options.output, client)
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
        "plan": asdict(doors.plan),
        "update": o.update,
        "proximal": o.proximal,
        "channels_last": o.handling.channels_last,
        "compile": o.handling.compile,
        "device": runtime.start(o.runtime).type,
        "threads": o.runtime.threads,
    }
    inputs = {"global": doors.model.content, "partition": doors.partition.content}
    if private := _private(doors, client):
        inputs["private"] = private.content
    return Provenance("local-train", words, o.seed, inputs)


def _plan(doors: Doors, client: int) -> tuple[str, dict[str, Any]]:
    examples, plan = len(doors.partition.of(client)), doors.options.plan
    output = str(fill(doors.options.output, client))
    line = (
        f"would write {output}: client {client}, round {doors.round}, {examples:,} "
        f"images, {plan.epochs} epochs of {doors.options.objective}"
    )
    return line, {"client": client, "examples": examples, "output": output}
