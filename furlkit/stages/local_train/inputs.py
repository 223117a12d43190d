"""Everything local-train is given, opened and checked against each other."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from furlkit import catalogue, runtime
from furlkit.aggregators.dictionary import rows_to_share
from furlkit.catalogue import divided
from furlkit.data.augment import Augmentation
from furlkit.data.augment.instahide import K as MIXED
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.features import Features
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import Private, read_private
from furlkit.files.targets import Targets, read_targets
from furlkit.inputs import matching
from furlkit.inputs.dictionary import averaged_features, open_dictionary, rows_of_others
from furlkit.inputs.paths import check_patterns, fill
from furlkit.inputs.settings import Computing
from furlkit.inputs.settings import fill as fill_options
from furlkit.inputs.style import style_encoder
from furlkit.models.architecture import Architecture, build, drawn
from furlkit.models.loading import check_tensors, full_architecture, tensors_of, z_width
from furlkit.models.style import empty_generator
from furlkit.randomness import torch_generator
from furlkit.training.learners import add_generator, learner_of
from furlkit.training.loop import Phase, Plan
from furlkit.training.run import Execution
from furlkit.weights import (
    PRIVATE,
    STYLE,
    Tensors,
    below,
    divide,
    is_batchnorm_statistic,
    part_of,
    parts_of,
    within,
)


@dataclass(frozen=True)
class Sharing:
    """The dictionary that is given, and the client's part of the next: FedCA's, FCL's.

    `negatives` says whether the given one is used, and whether anything else is.
    `share_rows` says how the rows of the next part are made. `participants` m, the
    clients that share rows, are all of the partition's if None. `dictionary_from` says
    which model computes z of the client's images, and `dictionary_positive` what is the
    positive against a dictionary.
    """

    dictionary: Path | None
    leave_own_out: bool
    negatives: str
    features_out: str | None
    share_rows: str
    alpha: float
    dictionary_size: int
    participants: int | None
    dictionary_from: str
    dictionary_positive: str

    @property
    def own_rows(self) -> bool:
        """Whether an image's own row is the positive against a dictionary."""
        given = self.dictionary is not None and self.negatives != "local"
        return self.dictionary_positive == "own" and given

    @property
    def averaged(self) -> bool:
        """Whether rows are those of Z; all others are made for each round."""
        return self.share_rows == "averaged"

    @property
    def mixes(self) -> bool:
        """Whether rows are shared that are of mixtures of images."""
        return bool(self.features_out) and self.share_rows in ("instahide", "mixup")

    @property
    def needs_own(self) -> bool:
        """Whether images are drawn to the rows Z of the client's last round."""
        return self.dictionary_positive == "own" and self.dictionary_from == "client"

    @property
    def keeps_rows(self) -> bool:
        """Whether the client needs its rows Z in its next round."""
        return self.averaged and (bool(self.alpha) or self.needs_own)

    def rows(self, clients: int) -> int:
        """How many rows a client shares, where there are so many clients."""
        return rows_to_share(self.dictionary_size, self.participants or clients)


@dataclass(frozen=True, kw_only=True)
class Options(Computing):
    """`output`, `private` and `private_out` may hold `{client}`.

    `settings` are the objective's own options, `update_settings` the update's, and
    `terms` those of each term that is switched on. `send` names the parts of the model
    that leave the client; None stands for the net and its heads.
    """

    partition: Path
    model: Path
    clients: tuple[int, ...]
    output: str
    data: Source
    objective: catalogue.Objective
    settings: dict[str, Any]
    update: catalogue.Update
    update_settings: dict[str, Any]
    terms: dict[str, dict[str, Any]]
    align: Path | None
    align_data: Source | None
    sharing: Sharing
    send: tuple[str, ...] | None
    augmentation: Augmentation
    plan: Plan
    private: str | None
    private_out: str | None
    execution: Execution
    seed: int

    @property
    def infuses(self) -> bool:
        """Whether the client's style model and a generator take part."""
        return any(catalogue.TERMS[name].infuses for name in self.terms)


def options_of(values: dict[str, Any]) -> Options:
    """The options of local-train from flat values."""
    rest, recorded = dict(values), catalogue.recorded("local-train", values)
    objective = catalogue.objectives()[rest.pop("objective")]
    update = catalogue.UPDATES[rest.pop("update")]
    settings, rest = divided(rest, objective.options)
    update_settings, rest = divided(rest, update.options)
    terms = {}
    for term in catalogue.TERMS.values():
        # Options that are not recorded name files, which are opened here.
        own, rest = divided(rest, [o for o in term.options if o.recorded])
        if values[catalogue.key_of(term.switch)]:
            terms[term.name] = own
    known: dict[str, Any] = {
        "objective": objective,
        "settings": settings,
        "update": update,
        "update_settings": update_settings,
        "terms": terms,
        "align_data": _align_source(rest),
        "send": tuple(rest["send"].split(",")) if rest["send"] else None,
        "phases": parse_phases(rest["phases"]) if rest["phases"] else (),
        "recorded": recorded,
    }
    if known["phases"]:
        known["epochs"] = sum(phase.epochs for phase in known["phases"])
        recorded["epochs"] = known["epochs"]
    return fill_options(Options, {**rest, **known})


def _align_source(values: dict[str, Any]) -> Source | None:
    """The public images of --align, which must be given with it."""
    data, split = values.pop("align_data"), values.pop("align_split")
    if values["align"] and not data:
        raise UsageError(
            f"--align {values['align']}: give --align-data too, the public images that "
            "the targets were made from"
        )
    place = values["data_root"], values["download"]
    return Source(data, *place, split) if data else None


def parse_phases(text: str) -> tuple[Phase, ...]:
    """projector:5,encoder:5 as phases; parts of one phase are joined by +."""
    phases = []
    for word in text.split(","):
        parts, _, epochs = word.partition(":")
        if not all(parts.split("+")) or not epochs.isdecimal() or int(epochs) < 1:
            raise UsageError(
                f"--phases {text}: expected parts and epochs, as projector:5,encoder:5"
            )
        phases.append(Phase(tuple(parts.split("+")), int(epochs)))
    return tuple(phases)


class Inputs(NamedTuple):
    """Everything local-train was given, opened and checked; the same for all clients."""

    options: Options
    partition: Partition
    model: Checkpoint
    architecture: Architecture
    images: ImageSet
    expected: "Expected"
    sent: tuple[str, ...]
    align: tuple[Targets, ImageSet] | None
    dictionary: Features | None

    @property
    def round(self) -> int:
        """The round that is being trained."""
        return self.model.facts.round + 1

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


@dataclass(frozen=True)
class Client:
    """A client at the start of a round.

    `received` is the global model, completed by what the client has kept; `tensors` is
    what the update makes of it, the model that training starts from: the parts of the
    net, and whatever else the learner carries. `memory` is what methods remember.
    `carried` are tensors of the private file that this training leaves as they are, and
    `style` is the encoder of the client's style model, where it is needed.
    """

    number: int
    index: np.ndarray
    private: Private | None
    received: Tensors
    tensors: Tensors
    memory: Tensors
    carried: Tensors
    style: Tensors
    negatives: np.ndarray | None
    provenance: Provenance


def open_inputs(options: Options) -> Inputs:
    """Open and check everything; nothing is trained or written."""
    _check_usage(options)
    runtime.start(options.runtime)
    partition = read_partition(options.partition)
    model = read_checkpoint(options.model)
    keeps = options.update.name == "keep"
    matching.check_start(model, partition, options.clients[0] if keeps else None)
    architecture = full_architecture(model.path, model.facts)
    matching.check_heads(model, architecture, options.objective)
    images = options.data.images()
    matching.check_dataset(partition, images)
    matching.check_channels(images, model)
    if options.objective.labels:
        matching.check_labels(images, architecture.heads["classifier"][0], model)
    expected = _expected(options, architecture)
    _check_whole(model, expected)
    trained = ["encoder", *options.objective.head_names]
    trained += ["generator"] if options.infuses else []
    for phase in options.plan.phases:
        _check_parts("--phases", phase.parts, trained)
    sent = _sent_parts(options, architecture, expected)
    shared = _align(options, model), _dictionary(options, model)
    known = options, partition, model, architecture, images
    inputs = Inputs(*known, expected, sent, *shared)
    _check_round(inputs)
    for number in options.clients:
        client = open_client(inputs, number)
        if client.private:
            matching.check_private(client.private, model)
        if options.sharing.features_out or options.sharing.own_rows:
            averaged_features(client.private, client.index, z_width(model))
        _check_mixtures(options.sharing, client)
    return inputs


def open_client(inputs: Inputs, number: int) -> Client:
    """What one client starts the round with; its private file is read here."""
    options = inputs.options
    matching.check_size(inputs.partition, number)
    private = None
    if options.private:
        private = read_private(fill(options.private, number), number)
    kept, carried = _divided(inputs, private)
    received = _start(inputs, number, kept)
    update = catalogue.load(options.update.function)
    own = below("last.", private.tensors) if private else {}
    memory = dict(private.memory) if private else {}
    tensors, memory = update(received, own or None, memory, **options.update_settings)
    return Client(
        number=number,
        index=inputs.partition.of(number),
        private=private,
        received=received,
        tensors=tensors,
        memory=memory,
        carried=carried,
        style=_style(inputs, private),
        negatives=_negatives(inputs, number),
        provenance=_provenance(inputs, private),
    )


def _divided(inputs: Inputs, private: Private | None) -> tuple[Tensors, Tensors]:
    """What the training takes of a private file, and what passes it by.

    A client keeps its style also in rounds that do not infuse it.
    """
    if private is None:
        return {}, {}
    known = inputs.expected.all
    own = {k: v for k, v in private.tensors.items() if not k.startswith("last.")}
    style = {k: v for k, v in divide(own, STYLE)[0].items() if k not in known}
    kept = {k: v for k, v in own.items() if k not in style}
    check_tensors(private.path, known, kept, "this training")
    return kept, style


def _style(inputs: Inputs, private: Private | None) -> Tensors:
    if private is None or not inputs.options.infuses:
        return {}
    return style_encoder(private, inputs.model)


def _start(inputs: Inputs, number: int, kept: Tensors) -> Tensors:
    """The global model, completed by what the client kept.

    What nobody has (a head that other clients kept to themselves, BatchNorm statistics
    in a client's first round, its generator) is drawn from the seed, for each client.
    """
    start, seed = {**kept, **inputs.model.tensors}, inputs.options.seed
    if lacking := [name for name in inputs.expected.net if name not in start]:
        rng = torch_generator(seed, "new parts", number)
        new = tensors_of(build(inputs.architecture, rng))
        start |= {name: new[name] for name in lacking}
    if inputs.options.infuses and "generator" not in parts_of(start):
        rng = torch_generator(seed, "generator", number)
        new = tensors_of(drawn(empty_generator(inputs.architecture.feature_dim), rng))
        start |= {f"generator.{name}": array for name, array in new.items()}
    return start


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
    options: Options, architecture: Architecture, expected: Expected
) -> tuple[str, ...]:
    """The parts that leave the client, checked against those that there are."""
    net = ("encoder", *architecture.heads)
    if options.send is None:
        return net
    known = [part for part in parts_of(expected.all) if not within(part, PRIVATE)]
    _check_parts("--send", options.send, known)
    kept = [part for part in net if not within(part, options.send)]
    if kept and not options.private_out:
        raise UsageError(
            f"--send {','.join(options.send)}: the {' and '.join(kept)} would be lost; "
            "give --private-out, where the client keeps what it does not send"
        )
    return options.send


def _check_parts(flag: str, parts: Iterable[str], known: list[str]) -> None:
    for part in parts:
        if not any(within(own, [part]) for own in known):
            raise UsageError(f"{flag} {part}: expected parts of {', '.join(known)}")


def _check_usage(options: Options) -> None:
    """What can be refused before any file is opened."""
    sharing = options.sharing
    objective, own = options.objective, sharing.dictionary_positive == "own"
    for flag, given, takes in (
        ("--dictionary", sharing.dictionary, objective.negatives),
        ("--features-out", sharing.features_out, objective.negatives),
        ("--negatives", sharing.negatives != "fused", objective.negatives),
        ("--dictionary-positive own", own, objective.own_rows),
    ):
        if given and not takes:
            raise UsageError(f"{flag} does not apply to --objective {objective.name}")
    for term in (catalogue.TERMS[name] for name in options.terms):
        if term.matches_rows and not objective.negatives:
            name = objective.name
            raise UsageError(f"--{term.switch} does not apply to --objective {name}")
    if options.infuses:
        _check_infusion(options)
    _check_sharing(sharing, options.private_out)
    if options.update.name == "keep" and len(options.clients) > 1:
        raise UsageError(
            f"--update keep: {len(options.clients)} clients have as many models to start "
            "from; train one at a time"
        )
    if options.update.own and not options.private_out:
        raise UsageError(
            f"--update {options.update.name}: needs the client's weights of its last "
            "round, which it keeps in a private file; give --private-out"
        )
    public = options.align_data.name if options.align_data else None
    known = (options.model, options.partition, options.data.name, public)
    inputs = (*known, options.align, options.sharing.dictionary)
    writes = {
        "-o": options.output,
        "--private-out": options.private_out,
        "--features-out": options.sharing.features_out,
    }
    check_patterns(options.clients, {"--private": options.private}, writes, inputs)


def _check_infusion(options: Options) -> None:
    objective = options.objective
    if not objective.again:
        known = [o.name for o in catalogue.objectives().values() if o.again]
        raise UsageError(
            f"--infusion does not apply to --objective {objective.name}: views are "
            "infused for a loss that compares the h of two views of an image, as "
            f"{', '.join(known)} do"
        )
    if not options.private:
        raise UsageError(
            "--infusion: needs the client's style model; give --private, a file that "
            "pretrain-style or the client's last round has written"
        )
    if not options.private_out:
        raise UsageError(
            "--infusion: the client's generator would be lost; give --private-out, "
            "where it keeps its style"
        )


def _check_sharing(sharing: Sharing, private_out: str | None) -> None:
    used = sharing.features_out or sharing.dictionary_positive == "own"
    if sharing.dictionary_from == "global" and not used:
        raise UsageError(
            "--dictionary-from global: says whose rows are shared, and none are; give "
            "--features-out"
        )
    if sharing.features_out and sharing.needs_own and not sharing.averaged:
        raise UsageError(
            f"--share-rows {sharing.share_rows}: with it a client keeps no rows of its "
            "images for --dictionary-positive own; add --dictionary-from global"
        )
    if not sharing.features_out or private_out or not sharing.keeps_rows:
        return
    if sharing.alpha:
        raise UsageError(
            f"--alpha {sharing.alpha:g}: features averaged over rounds are kept in a "
            "private file; give --private-out, or --alpha 0 to share this round's alone"
        )
    raise UsageError(
        "--dictionary-positive own: the rows of a client's images are kept in a private "
        "file; give --private-out, or --dictionary-from global"
    )


def _check_mixtures(sharing: Sharing, client: Client) -> None:
    if sharing.mixes and len(client.index) < MIXED:
        raise InputError(
            f"client {client.number} has {len(client.index)} images; --share-rows "
            f"{sharing.share_rows} mixes {MIXED}; use --share-rows plain"
        )


def _align(options: Options, model: Checkpoint) -> tuple[Targets, ImageSet] | None:
    """The targets and the public images that they are of."""
    if options.align is None or options.align_data is None:
        return None
    z_width(model)
    targets, public = read_targets(options.align), options.align_data.images()
    matching.check_targets(targets, public, model)
    return targets, public


def _dictionary(options: Options, model: Checkpoint) -> Features | None:
    path = options.sharing.dictionary
    return open_dictionary(path, z_width(model), model) if path else None


def _negatives(inputs: Inputs, number: int) -> np.ndarray | None:
    """The rows of the dictionary that are negatives for the client's images."""
    if inputs.dictionary is None or inputs.options.sharing.negatives == "local":
        return None
    if inputs.options.sharing.leave_own_out:
        return rows_of_others(inputs.dictionary, number)
    return inputs.dictionary.rows


def _check_round(inputs: Inputs) -> None:
    plan = inputs.plan
    if plan.schedule == "cosine" and plan.first_round >= plan.schedule_rounds:
        raise UsageError(
            f"--schedule-rounds {plan.schedule_rounds}: this is round {inputs.round}, and a "
            "cosine schedule has reached 0 by then; give the number of all rounds"
        )


def _provenance(inputs: Inputs, private: Private | None) -> Provenance:
    files: dict[str, Any] = {
        "global": inputs.model,
        "partition": inputs.partition,
        "private": private,
        "dictionary": inputs.dictionary,
        "targets": inputs.align and inputs.align[0],
    }
    contents = {role: file.content for role, file in files.items() if file}
    options = inputs.options
    resolved = options.resolved
    if not inputs.dictionary:  # A recipe may give the flag in the first round too.
        for name in ("leave-own-out", "negatives", "dictionary-positive"):
            resolved.pop(name, None)
        if not options.sharing.features_out:
            resolved.pop("dictionary-from", None)
    if inputs.plan.schedule_rounds > 1:
        resolved["first-round"] = inputs.plan.first_round
    if options.sharing.features_out:
        resolved["rows"] = options.sharing.rows(inputs.partition.facts.clients)
    return Provenance("local-train", resolved, options.seed, contents)
