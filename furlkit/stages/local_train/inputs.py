"""What local-train is given for all clients, opened and checked against each other."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from furlkit import catalogue, console, runtime
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.features import Features
from furlkit.files.partition import Partition, read_partition
from furlkit.files.targets import Targets, read_targets
from furlkit.inputs import matching
from furlkit.inputs.dictionary import check_made_for, open_dictionary
from furlkit.inputs.images import open_images
from furlkit.inputs.paths import fill
from furlkit.inputs.sites import images_of
from furlkit.models.architecture import Architecture, build
from furlkit.models.loading import check_tensors, full_architecture, z_width
from furlkit.models.style import empty_generator
from furlkit.stages.local_train.helpers import Candidates, open_candidates
from furlkit.stages.local_train.options import Mining, Options
from furlkit.stages.local_train.usage import check_usage
from furlkit.training.learners import add_generator, learner_of
from furlkit.training.plan import Plan
from furlkit.weights import PRIVATE, is_batchnorm_statistic, part_of, parts_of, within


class Inputs(NamedTuple):
    """Everything local-train was given, opened and checked; the same for all clients."""

    options: Options
    partition: Partition | None
    model: Checkpoint
    architecture: Architecture
    images: ImageSet
    expected: "Expected"
    sent: tuple[str, ...]
    align: tuple[Targets, ImageSet] | None
    dictionaries: dict[ClientId, Features]
    candidates: Candidates | None

    @property
    def round(self) -> int:
        """The round that is being trained."""
        return self.model.facts.round + (not self.options.continues_round)

    @property
    def parent(self) -> str | None:
        """The content hash of the model that the client was given for this round."""
        model = self.model
        return model.facts.parent if self.options.continues_round else model.content

    def index_of(self, client: ClientId) -> np.ndarray:
        """The places of a client's images in the dataset."""
        return images_of(client, self.partition, self.images)

    @property
    def rows_shared(self) -> int:
        """How many rows each client of the round shares."""
        clients = self.partition.facts.clients if self.partition else 1
        return self.options.sharing.rows(clients)

    @property
    def plan(self) -> Plan:
        """A schedule of several rounds continues where the last round left it."""
        plan = self.options.plan
        if plan.schedule_rounds == 1:
            return plan
        return replace(plan, first_round=self.round - 1)


class Expected(NamedTuple):
    """What a model must look like: tensors of the net, and all that the learner carries."""

    net: dict[str, torch.Tensor]
    all: dict[str, torch.Tensor]


def open_inputs(options: Options) -> Inputs:
    """Open and check everything; nothing is trained or written."""
    check_usage(options)
    runtime.start(options.runtime)
    partition = read_partition(options.partition) if options.partition else None
    model = read_checkpoint(options.model)
    own = options.clients[0] if options.starts_from_own else None
    matching.check_start(model, partition, own)
    if options.continues_round:
        _check_continued(model)
    architecture = full_architecture(model.path, model.facts)
    matching.check_heads(model, architecture, options.objective)
    matching.check_augmentation(options.augmentation, model)
    _check_mining(options.mining, model, architecture)
    images = open_images(options.data, model)
    if partition:
        matching.check_dataset(partition, images)
    if "classes" in options.tell and images.labels is None:
        raise InputError(f"{images.without_labels}, which --tell classes counts")
    if options.objective.labels:
        matching.check_labels(images, architecture.heads["classifier"][0], model)
    expected = _expected(options, architecture)
    _check_whole(model, expected)
    _check_phases(options)
    sent = _sent_parts(options, architecture, expected, model.facts.round + 1)
    device = runtime.device_of(options.runtime)
    candidates = open_candidates(options.helpers, model, options.seed, device)
    shared = _align(options, model), _dictionaries(options, model), candidates
    known = options, partition, model, architecture, images
    inputs = Inputs(*known, expected, sent, *shared)
    _check_round(inputs)
    return inputs


def _check_continued(model: Checkpoint) -> None:
    if model.facts.role != "client":
        raise InputError(
            f"{model.path}: is a {model.facts.role} model; --update continue trains the "
            "client's own model of this round once more"
        )


def _check_mining(
    mining: Mining | None, model: Checkpoint, architecture: Architecture
) -> None:
    by_z = mining and mining.mine_layer == "z" and not mining.neighbours_from
    if by_z and architecture.z_dim is None:
        raise InputError(
            f"{model.path}: has no projector, so no z to find neighbours by; use "
            "--mine-layer h, or create the model with init --head projector"
        )


def _expected(options: Options, architecture: Architecture) -> Expected:
    net = build(architecture, None)
    state = make_learner(options, net, architecture, options.settings).state_dict()
    return Expected(
        net.state_dict(), {k.removeprefix("net."): v for k, v in state.items()}
    )


def make_learner(
    options: Options, net: nn.Module, architecture: Architecture, settings: dict
) -> Any:
    """The learner of the objective, with a generator if views are infused."""
    learner = learner_of(options.objective, net, settings)
    if options.infuses:
        generator = empty_generator(architecture.feature_dim)
        device = next(net.parameters()).device
        add_generator(learner, generator.to_empty(device=device))
    return learner


def _check_whole(model: Checkpoint, expected: Expected) -> None:
    """A part that the model says it has must be there whole."""
    check_tensors(model.path, expected.all, model.tensors)
    facts = model.facts
    for name in expected.net:
        declared = facts.parts is None or part_of(name) in facts.parts
        declared &= facts.statistics or not is_batchnorm_statistic(name)
        if declared and name not in model.tensors:
            raise InputError(f"{model.path}: lacks {name} of its architecture")
    if facts.parts is not None and "encoder" not in facts.parts:
        raise InputError(f"{model.path}: has no encoder, which every client needs")


def _sent_parts(
    options: Options, architecture: Architecture, expected: Expected, round_: int
) -> tuple[str, ...]:
    """The parts that leave the client in a round, checked against those there are."""
    net = ("encoder", *architecture.heads)
    sent = (*net, *options.objective.sends) if options.send is None else options.send
    known = [part for part in parts_of(expected.all) if not within(part, PRIVATE)]
    _check_parts("--send", sent, known)
    kept = [part for part in net if not within(part, sent)]
    if kept and not options.private_out:
        raise UsageError(
            f"--send {','.join(sent)}: the {' and '.join(kept)} would be lost; "
            "give --private-out, where the client keeps what it does not send"
        )
    if options.update.sends:
        choose = catalogue.load(options.update.sends)
        return choose(sent, round_, **options.update_settings)
    return sent


def _check_phases(options: Options) -> None:
    """Phases name parts that are trained; a head that none names stays as it was drawn."""
    objective = options.objective
    named: list[str] = []
    trained = ["encoder", *objective.head_names]
    trained += ["generator"] if options.infuses else []
    for phase in options.plan.phases:
        _check_parts("--phases", phase.parts, trained)
        named += phase.parts
    left = [head for head in objective.head_names if not within(head, named)]
    if named and left:
        console.warn(
            f"--phases: none trains the {left[0]} of --objective {objective.name}, which "
            f"stays as it is; name it too, as {named[0]}+{left[0]}:5"
        )


def _check_parts(flag: str, parts: Iterable[str], known: list[str]) -> None:
    for part in parts:
        if not any(within(own, [part]) for own in known):
            raise UsageError(f"{flag} {part}: expected parts of {', '.join(known)}")


def _align(options: Options, model: Checkpoint) -> tuple[Targets, ImageSet] | None:
    """The targets and the public images that they are of."""
    if options.align is None or options.align_data is None:
        return None
    z_width(model)
    targets = read_targets(options.align)
    public = open_images(options.align_data, model)
    matching.check_targets(targets, public, model)
    return targets, public


def _dictionaries(options: Options, model: Checkpoint) -> dict[ClientId, Features]:
    """The dictionary of each client; a file for all clients is read once."""
    pattern = options.sharing.dictionary
    if pattern is None:
        return {}
    paths = {client: fill(pattern, client) for client in options.clients}
    width = z_width(model)
    read = {path: open_dictionary(path, width, model) for path in set(paths.values())}
    for client, path in paths.items():
        check_made_for(read[path], client)
    return {client: read[path] for client, path in paths.items()}


def _check_round(inputs: Inputs) -> None:
    plan = inputs.plan
    if plan.schedule == "cosine" and plan.first_round >= plan.schedule_rounds:
        raise UsageError(
            f"--schedule-rounds {plan.schedule_rounds}: this is round {inputs.round}, and a "
            "cosine schedule has reached 0 by then; give the number of all rounds"
        )
