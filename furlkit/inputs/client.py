"""Everything local-train is given, opened and checked against each other."""

from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import runtime
from furlkit.data.augment import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.features import Features
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import ENSEMBLE, Private, read_private
from furlkit.files.targets import Targets, read_targets
from furlkit.inputs.dictionary import (
    Sharing,
    last_ensemble,
    open_dictionary,
    rows_of_others,
)
from furlkit.inputs.matching import (
    check_channels,
    check_dataset,
    check_global,
    check_head,
    check_labels,
    check_own,
    check_private,
    check_size,
    check_targets,
)
from furlkit.inputs.paths import check_patterns, fill
from furlkit.models.loading import architecture_of, fitting_net, fresh_statistics
from furlkit.runtime import Runtime
from furlkit.training.loop import Plan
from furlkit.training.methods import OBJECTIVES, UPDATES, settings_of
from furlkit.training.run import Handling


@dataclass(frozen=True)
class Aligning:
    """FedCA's alignment: targets, the public images they are of, and the weight."""

    targets: Path
    data: Source
    beta: float = 0.01
    reduction: str = "sum"
    batch_size: int = 128


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
    sharing: Sharing = Sharing()
    aligning: Aligning | None = None
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
    dictionary: Features | None = None
    targets: Targets | None = None
    public: ImageSet | None = None

    @property
    def round(self) -> int:
        """The round that is being trained."""
        return self.model.facts.round + 1

    @property
    def plan(self) -> Plan:
        """A schedule of several rounds is taken up where the last round left it."""
        plan = self.options.plan
        return replace(plan, first_round=self.round - 1) if plan.rounds > 1 else plan

    def private(self, client: int) -> Private | None:
        """What the client kept of its last round."""
        pattern = self.options.private
        return _kept(fill(pattern, client), client) if pattern else None

    def ensemble(self, client: int) -> dict[str, np.ndarray]:
        """The ensemble the client kept, which a round without sharing leaves as it is."""
        private = self.private(client)
        kept = private.tensors if private else {}
        return {k: v for k, v in kept.items() if k.startswith(ENSEMBLE)}

    def start(self, client: int) -> Checkpoint:
        """What the client starts the round from."""
        model, private = self.model, self.private(client)
        own: dict[str, np.ndarray] = {}
        if model.facts.left_out:
            own = fresh_statistics(architecture_of(model.path, model.facts))
        if private:
            own = {**own, **private.weights}
        tensors = UPDATES[self.options.update](model.tensors, own)
        return replace(model, tensors=tensors)

    def negatives(self, client: int) -> np.ndarray | None:
        """The rows of the dictionary that the client's images are told from."""
        if self.dictionary is None:
            return None
        if self.options.sharing.leave_own_out:
            return rows_of_others(self.dictionary, client)
        return self.dictionary.rows

    def made(self, client: int) -> Provenance:
        """How what the client writes comes to be."""
        inputs = {"global": self.model.content, "partition": self.partition.content}
        if private := self.private(client):
            inputs["private"] = private.content
        if self.dictionary:
            inputs["dictionary"] = self.dictionary.content
        if self.targets:
            inputs["targets"] = self.targets.content
        return Provenance("local-train", _words(self), self.options.seed, inputs)


# A client's file is asked for several times in a row, and may be large.
_kept = lru_cache(maxsize=1)(read_private)


def open_doors(options: Options) -> Doors:
    """Open and check everything; nothing is trained or written."""
    _kept.cache_clear()
    objective = OBJECTIVES[options.objective]
    settings = settings_of(options.objective, options.settings)
    _check_sharing(options)
    _check_files(options)
    runtime.start(options.runtime)
    partition = read_partition(options.partition)
    model = read_checkpoint(options.model)
    if options.update == "keep":
        check_own(model, partition, options.clients[0])
    else:
        check_global(model, partition)
    check_head(model, objective.head, options.objective)
    images = options.data.images()
    check_dataset(partition, images)
    architecture = architecture_of(model.path, model.facts)
    check_channels(images, architecture, model.path)
    if objective.labels:
        check_labels(images, architecture.classifier or 0, model.path)
    doors = Doors(options, partition, model, images, settings)
    doors = _with_dictionary(_with_targets(doors))
    _check_round(doors)
    for client in options.clients:
        _check_client(doors, client)
    fitting_net(doors.start(options.clients[0]))
    return doors


def _check_files(options: Options) -> None:
    if options.update == "keep" and len(options.clients) > 1:
        raise UsageError(
            f"--update keep: {len(options.clients)} clients have as many models to carry "
            "on from; train one at a time"
        )
    given = (options.model, options.partition, options.sharing.dictionary)
    inputs = [Path(options.data.name), *(path for path in given if path)]
    if options.aligning:
        inputs += [options.aligning.targets, Path(options.aligning.data.name)]
    writes = {
        "-o": options.output,
        "--private-out": options.private_out,
        "--features-out": options.sharing.features_out,
    }
    check_patterns(options.clients, {"--private": options.private}, writes, inputs)


def _check_sharing(options: Options) -> None:
    sharing = options.sharing
    contrastive = OBJECTIVES[options.objective].negatives
    for flag, given in (
        ("--dictionary", sharing.dictionary),
        ("--features-out", sharing.features_out),
    ):
        if given and not contrastive:
            raise UsageError(f"{flag} means nothing to --objective {options.objective}")
    if sharing.features_out and sharing.keep and not options.private_out:
        raise UsageError(
            f"--alpha {sharing.keep:g}: the ensemble of past rounds is kept in a private "
            "file; give --private-out, or --alpha 0 to share this round's rows alone"
        )


def _with_targets(doors: Doors) -> Doors:
    aligning = doors.options.aligning
    if aligning is None:
        return doors
    if not doors.model.facts.architecture.get("projector"):
        raise InputError(
            f"{doors.model.path}: has no projector, so no z to align; make it with "
            "init --head projector"
        )
    targets, public = read_targets(aligning.targets), aligning.data.images()
    check_targets(targets, public, doors.model)
    return replace(doors, targets=targets, public=public)


def _with_dictionary(doors: Doors) -> Doors:
    path = doors.options.sharing.dictionary
    if path is None:
        return doors
    found = open_dictionary(path, _width(doors), doors.model)
    return replace(doors, dictionary=found)


def _width(doors: Doors) -> int:
    return doors.model.facts.architecture["projector"][-1]


def _check_client(doors: Doors, client: int) -> None:
    check_size(doors.partition, client)
    doors.negatives(client)
    if private := doors.private(client):
        check_private(private, doors.model)
        if doors.options.sharing.features_out:
            last_ensemble(private, doors.partition.of(client), _width(doors))


def _check_round(doors: Doors) -> None:
    plan = doors.plan
    if plan.schedule == "cosine" and plan.first_round >= plan.rounds:
        raise UsageError(
            f"--schedule-rounds {plan.rounds}: this is round {doors.round}, and a "
            "cosine schedule has come down to 0 by then; give the number of all rounds"
        )


def _words(doors: Doors) -> dict[str, Any]:
    """The options as resolved; those of a part that was not asked for are left out."""
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
        **o.runtime.resolved_options(),
    }
    if doors.dictionary:
        words["leave_own_out"] = o.sharing.leave_own_out
    if o.sharing.features_out:
        rows = o.sharing.rows(doors.partition.facts.clients)
        words["sharing"] = {"alpha": o.sharing.keep, "rows": rows}
    if a := o.aligning:
        words["alignment"] = {
            "beta": a.beta,
            "reduction": a.reduction,
            "batch_size": a.batch_size,
        }
    return words
