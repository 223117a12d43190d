"""Open and check the common inputs of the clients."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

from torch import nn

from furlkit import catalogue, console, runtime
from furlkit.errors import InputError, UsageError
from furlkit.exchanges.exchange import Setup
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.container.read import Container
from furlkit.files.partition import read_partition
from furlkit.files.signatures import Signers
from furlkit.inputs import matching
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import check_tensors, full_architecture
from furlkit.stages.local_train.options import LocalTrainOptions
from furlkit.stages.local_train.usage import check_usage
from furlkit.training.learners import learner_of
from furlkit.training.plan import Plan
from furlkit.weights import PRIVATE, is_batchnorm_statistic, part_of, parts_of, within


class Inputs(NamedTuple):
    """The options, the opened files, and the parts of the model that leave the client.

    Of these parts the client keeps the tensors in `kept`; the tensors in `unsent` are
    neither sent nor kept, because they stay as received.
    """

    options: LocalTrainOptions
    setup: Setup
    sent: tuple[str, ...]
    kept: set[str]
    unsent: set[str]


def open_inputs(options: LocalTrainOptions) -> Inputs:
    """Open and check the inputs, before training and writing."""
    check_usage(options)
    _check_signatures(options)
    runtime.start(options.runtime)
    partition = read_partition(options.partition) if options.partition else None
    model = read_checkpoint(options.model)
    own = options.clients[0] if options.starts_from_own else None
    matching.check_start(model, partition, own)
    if options.continues_round:
        _check_continued(model, options.update.name)
    architecture = full_architecture(model.path, model.facts)
    matching.check_heads(model, architecture, options.objective)
    matching.check_augmentation(options.augmentation, model)
    images = open_images(options.data, model)
    if partition:
        matching.check_dataset(partition, images)
    if "classes" in options.tell and images.labels is None:
        raise InputError(f"{images.without_labels}, which --tell classes counts")
    if options.objective.labels:
        matching.check_labels(images, architecture.heads["classifier"][0], model)
    net = build(architecture, None)
    learner = make_learner(options, net, architecture, options.settings)
    round_ = model.facts.round + (not options.continues_round)
    setup = Setup(
        partition=partition,
        model=model,
        architecture=architecture,
        images=images,
        net=net.state_dict(),
        learner={k.removeprefix("net."): v for k, v in learner.state_dict().items()},
        clients=options.clients,
        round=round_,
        parent=model.facts.parent if options.continues_round else model.content,
        plan=_plan_of_round(options.plan, round_),
        seed=options.seed,
        tell=options.tell,
        device=runtime.device_of(options.runtime),
        channels_last=options.execution.channels_last,
    )
    kept = {k for exchange in options.active for k in exchange.kept_tensors(setup)}
    unsent = {k for exchange in options.active for k in exchange.unsent_tensors(setup)}
    _check_whole(setup, kept)
    _check_phases(options)
    sent = _sent_parts(options, setup)
    for exchange in options.active:
        exchange.open(setup)
    return Inputs(options, setup, sent, kept, unsent)


def _check_signatures(options: LocalTrainOptions) -> None:
    """Check the signatures and every byte of received files, if --signers is given."""
    if options.signers is None:
        return
    signers, clients = Signers(options.signers), options.clients
    paths = {fill(pattern, c): None for pattern in options.received for c in clients}
    for file in map(Container, paths):
        signers.check(file)
        file.verify()


def _plan_of_round(plan: Plan, round_: int) -> Plan:
    """Continue a schedule of several rounds after the last round."""
    if plan.schedule_rounds > 1:
        plan = replace(plan, first_round=round_ - 1)
    if plan.schedule == "cosine" and plan.first_round >= plan.schedule_rounds:
        raise UsageError(
            f"--schedule-rounds {plan.schedule_rounds}: this is round {round_}, and a "
            "cosine schedule has reached 0 by then; give the number of all rounds"
        )
    return plan


def _check_continued(model: Checkpoint, update: str) -> None:
    if model.facts.role != "client":
        raise InputError(
            f"{model.path}: is a {model.facts.role} model; --update {update} trains the "
            "client's own model of this round once more"
        )


def make_learner(
    options: LocalTrainOptions,
    net: nn.Module,
    architecture: Architecture,
    settings: dict,
) -> Any:
    """The learner of the objective, with the modules of exchanges."""
    learner = learner_of(options.objective, net, settings)
    for exchange in options.active:
        exchange.extend(learner, architecture)
    return learner


def _check_whole(setup: Setup, kept: set[str]) -> None:
    """A part that the model says it has must be there, but for tensors kept by clients."""
    model, facts = setup.model, setup.model.facts
    check_tensors(model.path, setup.learner, model.tensors)
    for name in setup.net:
        declared = facts.parts is None or part_of(name) in facts.parts
        declared &= facts.statistics or not is_batchnorm_statistic(name)
        if declared and name not in model.tensors and name not in kept:
            raise InputError(f"{model.path}: lacks {name} of its architecture")
    if facts.parts is not None and "encoder" not in facts.parts:
        raise InputError(f"{model.path}: has no encoder, which every client needs")


def _sent_parts(options: LocalTrainOptions, setup: Setup) -> tuple[str, ...]:
    """Parts to send in a round; raise for unknown parts."""
    net, round_ = ("encoder", *setup.architecture.heads), setup.model.facts.round + 1
    more = [part for exchange in options.active for part in exchange.sends]
    sent = options.send or (*net, *options.objective.sends, *more)
    known = [part for part in parts_of(setup.learner) if not within(part, PRIVATE)]
    _check_parts("--send", sent, known)
    kept = [part for part in net if not within(part, sent)]
    if kept and not options.private_out:
        raise UsageError(
            f"--send {','.join(sent)}: the {' and '.join(kept)} would be lost; "
            "give --private-out, the file for parts that stay at the client"
        )
    if options.update.sends:
        choose = catalogue.load(options.update.sends)
        return choose(sent, round_, **options.update_settings)
    return sent


def _check_phases(options: LocalTrainOptions) -> None:
    """Check the parts of --phases; warn about a head of the objective without a phase."""
    objective = options.objective
    named: list[str] = []
    trained = ["encoder", *objective.head_names]
    trained += [part for exchange in options.active for part in exchange.trains]
    for phase in options.plan.phases:
        _check_parts("--phases", phase.parts, trained)
        named += phase.parts
    left = [head for head in objective.head_names if not within(head, named)]
    if named and left:
        console.warn(
            f"--phases: no phase trains the {left[0]} of --objective {objective.name}; add "
            f"the part to a phase: {named[0]}+{left[0]}:5"
        )


def _check_parts(flag: str, parts: Iterable[str], known: list[str]) -> None:
    for part in parts:
        if not any(within(own, [part]) for own in known):
            raise UsageError(f"{flag} {part}: expected parts of {', '.join(known)}")
