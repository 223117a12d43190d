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
from furlkit.files.neighbours import Neighbours
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import Private, read_private
from furlkit.files.targets import Targets, read_targets
from furlkit.inputs import matching
from furlkit.inputs.dictionary import averaged_features, open_dictionary, rows_of_others
from furlkit.inputs.kept import kept_rows
from furlkit.inputs.neighbours import MEMORY as NEIGHBOURS
from furlkit.inputs.neighbours import (
    NEAREST,
    ROUND,
    kept_neighbours,
    open_neighbours,
    remembered_neighbours,
)
from furlkit.inputs.paths import check_patterns, fill
from furlkit.inputs.settings import Computing
from furlkit.inputs.settings import fill as fill_options
from furlkit.inputs.style import style_encoder
from furlkit.models.architecture import Architecture, build, drawn
from furlkit.models.loading import check_tensors, full_architecture, tensors_of, z_width
from furlkit.models.style import empty_generator
from furlkit.randomness import torch_generator
from furlkit.stages.local_train.helpers import (
    Candidate,
    Candidates,
    Helpers,
    open_candidates,
)
from furlkit.training.learners import add_generator, learner_of
from furlkit.training.loop import Phase, Plan
from furlkit.training.run import Execution
from furlkit.updates.decision import Decision
from furlkit.weights import (
    OWN,
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


@dataclass(frozen=True)
class Mining:
    """How many neighbours of each image an objective wants, and where they come from.

    They are those of the file `neighbours_from`, or those that the client kept, or the
    nearest by `mine_layer`, h or z, of the model that the client starts from. After
    `mine_every` rounds, if that is not 0, kept ones are mined again.
    """

    nearest: int
    mine_layer: str
    mine_every: int
    neighbours_from: str | None


@dataclass(frozen=True, kw_only=True)
class Options(Computing):
    """`output`, `private` and `private_out` may hold `{client}`.

    `settings` are the objective's own options, `update_settings` the update's,
    `personal_settings` those of the client's own model, and `terms` those of each term
    that is switched on. Only an objective that compares images with their neighbours has
    `mining`. `send` names the parts of the model that leave the client; None stands for
    the net and its heads.
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
    personal: catalogue.Personal
    personal_settings: dict[str, Any]
    terms: dict[str, dict[str, Any]]
    align: Path | None
    align_data: Source | None
    sharing: Sharing
    mining: Mining | None
    helpers: Helpers | None
    send: tuple[str, ...] | None
    augmentation: Augmentation
    plan: Plan
    private: str | None
    private_out: str | None
    execution: Execution
    seed: int

    @property
    def has_own_model(self) -> bool:
        """Whether a client trains a model besides the one that it sends."""
        return self.personal.name != "none"

    @property
    def infuses(self) -> bool:
        """Whether the client's style model and a generator take part."""
        return any(catalogue.TERMS[name].infuses for name in self.terms)


def options_of(values: dict[str, Any]) -> Options:
    """The options of local-train from flat values."""
    rest, recorded = dict(values), catalogue.recorded("local-train", values)
    objective = catalogue.objectives()[rest.pop("objective")]
    update = catalogue.UPDATES[rest.pop("update")]
    personal = catalogue.PERSONAL[rest.pop("personal")]
    elsewhere = (*catalogue.MINING, *catalogue.HELPERS)
    own = [option for option in objective.options if option not in elsewhere]
    settings, rest = divided(rest, own)
    personal_settings, rest = divided(rest, personal.options)
    update_settings, rest = divided(rest, update.options)
    terms = {}
    for term in catalogue.TERMS.values():
        # Options that are not recorded name files, which are opened here.
        chosen, rest = divided(rest, [o for o in term.options if o.recorded])
        if values[catalogue.key_of(term.switch)]:
            terms[term.name] = chosen
    known: dict[str, Any] = {
        "objective": objective,
        "settings": settings,
        "update": update,
        "update_settings": update_settings,
        "personal": personal,
        "personal_settings": personal_settings,
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
    candidates: Candidates | None

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
    net, and whatever else the learner carries. `own` is the same for the model that the
    client trains for itself, if it does. `memory` is what methods remember, and `kept`
    the rows of its images among it that the objective wants back; `decision` is what the
    update decided, for the journal, and `helpers` are other clients whose models help.
    `carried` are tensors of the private file that this training leaves as they are, and
    `style` is the encoder of the client's style model, where it is needed.
    """

    number: int
    index: np.ndarray
    private: Private | None
    received: Tensors
    tensors: Tensors
    own: Tensors
    memory: Tensors
    kept: Tensors
    decision: Decision | None
    carried: Tensors
    style: Tensors
    negatives: np.ndarray | None
    helpers: dict[int, Candidate]
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
    _check_mining(options.mining, model, architecture)
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
    sent = _sent_parts(options, architecture, expected, model.facts.round + 1)
    device = runtime.device_of(options.runtime)
    candidates = open_candidates(options.helpers, model, options.seed, device)
    shared = _align(options, model), _dictionary(options, model), candidates
    known = options, partition, model, architecture, images
    inputs = Inputs(*known, expected, sent, *shared)
    _check_round(inputs)
    for number in options.clients:
        client = open_client(inputs, number)
        if client.private:
            used = bool(options.update.sends)
            matching.check_private(client.private, model, used)
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
    mine, carried = _divided(inputs, private)
    received = _start(inputs, number, mine)
    update, last = catalogue.load(options.update.function), _last(inputs, private)
    memory = dict(private.memory) if private else {}
    start = update(received, last or None, memory, **options.update_settings)
    tensors, memory, decision = start
    index, near = inputs.partition.of(number), _neighbours(inputs, number)
    if options.mining:
        memory = {k: v for k, v in memory.items() if k not in NEIGHBOURS}
        memory |= _known_neighbours(inputs, options.mining, index, near or private)
    helpers = _helpers(inputs, number)
    return Client(
        number=number,
        index=index,
        private=private,
        received=received,
        tensors=tensors,
        own=_own_start(options, received, private),
        memory=memory,
        kept=_kept_rows(inputs, number, private),
        decision=decision or _kept_heads(inputs),
        carried=carried,
        style=_style(inputs, private),
        negatives=_negatives(inputs, number),
        helpers=helpers,
        provenance=_provenance(inputs, private, near, helpers),
    )


def _last(inputs: Inputs, private: Private | None) -> Tensors:
    """The client's weights after its last round, of the parts that the net still has."""
    last = below("last.", private.tensors) if private else {}
    known = {name: last[name] for name in last.keys() & inputs.expected.net.keys()}
    if private:
        check_tensors(private.path, inputs.expected.net, known, "this training")
    return known


def _kept_heads(inputs: Inputs) -> Decision | None:
    """Where heads travel in some rounds only: whether they are the client's own."""
    if not inputs.options.update.sends:
        return None
    given = parts_of(inputs.model.tensors)
    heads = inputs.architecture.heads
    return Decision(0.0 if all(head in given for head in heads) else 1.0)


def _divided(inputs: Inputs, private: Private | None) -> tuple[Tensors, Tensors]:
    """What the training takes of a private file, and what passes it by.

    A client keeps its style also in rounds that do not infuse it. Its own model is read
    elsewhere.
    """
    if private is None:
        return {}, {}
    known = inputs.expected.all
    own = {OWN + k: v for k, v in known.items()} if inputs.options.has_own_model else {}
    mine = {k: v for k, v in private.tensors.items() if not k.startswith("last.")}
    style = {k: v for k, v in divide(mine, STYLE)[0].items() if k not in known}
    kept = {k: v for k, v in mine.items() if k not in style}
    check_tensors(private.path, {**known, **own}, kept, "this training")
    return {k: v for k, v in kept.items() if not k.startswith(OWN)}, style


def _style(inputs: Inputs, private: Private | None) -> Tensors:
    if private is None or not inputs.options.infuses:
        return {}
    return style_encoder(private, inputs.model)


def _start(inputs: Inputs, number: int, kept: Tensors) -> Tensors:
    """The global model, completed by what the client kept.

    What nobody has (a head that other clients kept to themselves, BatchNorm statistics
    in a client's first round, its generator) is drawn from the seed, for each client. A
    head that will be averaged later is the one that init drew.
    """
    start, seed = {**kept, **inputs.model.tensors}, inputs.options.seed
    if lacking := [name for name in inputs.expected.net if name not in start]:
        averaged = bool(inputs.options.update.sends)
        purpose = ("init",) if averaged else ("new parts", number)
        new = tensors_of(build(inputs.architecture, torch_generator(seed, *purpose)))
        start |= {name: new[name] for name in lacking}
    if inputs.options.infuses and "generator" not in parts_of(start):
        rng = torch_generator(seed, "generator", number)
        new = tensors_of(drawn(empty_generator(inputs.architecture.feature_dim), rng))
        start |= {f"generator.{name}": array for name, array in new.items()}
    return start


def _own_start(options: Options, received: Tensors, private: Private | None) -> Tensors:
    """What the client's own model goes on from; at first it is the received model."""
    if not options.has_own_model:
        return {}
    return {**received, **(below(OWN, private.tensors) if private else {})}


def _kept_rows(inputs: Inputs, number: int, private: Private | None) -> Tensors:
    """The rows of its images that the objective wants back, by its name for them."""
    what = inputs.options.objective.keeps
    if not what:
        return {}
    width = inputs.architecture.heads["projector"][-1]
    return {what: kept_rows(private, what, inputs.partition.of(number), width)}


def _check_mining(
    mining: Mining | None, model: Checkpoint, architecture: Architecture
) -> None:
    by_z = mining and mining.mine_layer == "z" and not mining.neighbours_from
    if by_z and architecture.z_dim is None:
        raise InputError(
            f"{model.path}: has no projector, so no z to find neighbours by; use "
            "--mine-layer h, or create the model with init --head projector"
        )


def _neighbours(inputs: Inputs, number: int) -> Neighbours | None:
    """The file of neighbours that the client was given."""
    mining, index = inputs.options.mining, inputs.partition.of(number)
    if mining is None or not mining.neighbours_from:
        return None
    path = fill(mining.neighbours_from, number)
    return open_neighbours(path, number, index, inputs.images, mining.nearest)


def _known_neighbours(
    inputs: Inputs,
    mining: Mining,
    index: np.ndarray,
    found: Neighbours | Private | None,
) -> Tensors:
    """Neighbours that need not be mined, as memory: given, or kept and not too old."""
    if isinstance(found, Neighbours):
        return remembered_neighbours(found.nearest, found.index, inputs.round)
    kept = kept_neighbours(found, index)
    if not kept or kept[NEAREST].shape[1] != min(mining.nearest, len(index) - 1):
        return {}
    age = inputs.round - int(kept[ROUND])
    return {} if mining.mine_every and age >= mining.mine_every else kept


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
    if options.has_own_model:
        _check_personal(options)
    if options.update.name == "keep" and len(options.clients) > 1:
        raise UsageError(
            f"--update keep: {len(options.clients)} clients have as many models to start "
            "from; train one at a time"
        )
    _check_update(options)
    public = options.align_data.name if options.align_data else None
    known = (options.model, options.partition, options.data.name, public)
    helpers = options.helpers.helper_files if options.helpers else ()
    inputs = (*known, options.align, options.sharing.dictionary, *helpers)
    writes = {
        "-o": options.output,
        "--private-out": options.private_out,
        "--features-out": options.sharing.features_out,
    }
    reads = {"--private": options.private}
    if options.mining:
        reads["--neighbours-from"] = options.mining.neighbours_from
    check_patterns(options.clients, reads, writes, inputs)


def _check_update(options: Options) -> None:
    update, objective = options.update, options.objective
    for head in update.heads:
        if head not in objective.head_names:
            raise UsageError(
                f"--update {update.name}: decides about the {head}, which --objective "
                f"{objective.name} does not train; use --update replace"
            )
    if options.private_out:
        return
    kept = "weights of its last round" if update.own else "heads between exchanges"
    if update.own or update.sends:
        raise UsageError(
            f"--update {update.name}: needs the client's {kept}, which it keeps in a "
            "private file; give --private-out"
        )


def _check_personal(options: Options) -> None:
    flag = f"--personal {options.personal.name}"
    objective, settings = options.objective, options.personal_settings
    if not options.private_out:
        raise UsageError(
            f"{flag}: a client keeps its own model in a private file; give --private-out"
        )
    if options.update.name == "keep":
        raise UsageError(
            f"{flag}: is about the global model, and with --update keep a client is not "
            "given one; leave one of them out"
        )
    if settings.get("mix") == "weights" and not objective.mixes:
        raise UsageError(
            f"--mix weights does not apply to --objective {objective.name}, which sets "
            "weights itself that a mixture would not have; use --mix views"
        )
    if settings.get("mix") == "views" and "projector" not in objective.head_names:
        raise UsageError(
            f"--mix views does not apply to --objective {objective.name}, which has no z "
            "of two views; use --mix weights"
        )
    if settings.get("own_share_rate") and options.plan.precision == "float16":
        raise UsageError(
            "--own-share-rate: the loss of --precision float16 is scaled, and alpha's "
            "gradient with it; use bfloat16"
        )


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
    if options.has_own_model:
        raise UsageError(
            f"--infusion does not apply with --personal {options.personal.name}: the "
            "generator is trained with the model that is sent, and makes it personal; "
            "leave one of them out"
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


def _helpers(inputs: Inputs, number: int) -> dict[int, Candidate]:
    """The other clients that help one."""
    if inputs.candidates is None or inputs.options.helpers is None:
        return {}
    return inputs.candidates.nearest(number, inputs.options.helpers.helper_count)


def _check_round(inputs: Inputs) -> None:
    plan = inputs.plan
    if plan.schedule == "cosine" and plan.first_round >= plan.schedule_rounds:
        raise UsageError(
            f"--schedule-rounds {plan.schedule_rounds}: this is round {inputs.round}, and a "
            "cosine schedule has reached 0 by then; give the number of all rounds"
        )


def _provenance(
    inputs: Inputs,
    private: Private | None,
    near: Neighbours | None,
    helpers: dict[int, Candidate],
) -> Provenance:
    files: dict[str, Any] = {
        "global": inputs.model,
        "partition": inputs.partition,
        "private": private,
        "neighbours": near,
        "dictionary": inputs.dictionary,
        "targets": inputs.align and inputs.align[0],
        **{f"helper {client}": helper for client, helper in helpers.items()},
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
