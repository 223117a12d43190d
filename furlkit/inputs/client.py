"""Everything local-train is given, opened and checked against each other."""

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import runtime
from furlkit.catalogue import UPDATES, divided, load, objectives, recorded
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
from furlkit.inputs.settings import fill as fill_options
from furlkit.models.loading import architecture_of, fitting_net, fresh_statistics
from furlkit.runtime import Runtime
from furlkit.training.loop import Plan
from furlkit.training.run import Handling


@dataclass(frozen=True)
class Aligning:
    """FedCA's alignment: targets, the public images they were made from, the weight."""

    align: Path
    align_data: str
    align_split: str
    data_root: Path | None
    download: bool
    beta: float
    align_reduction: str
    align_batch_size: int

    @property
    def data(self) -> Source:
        """The public images."""
        return Source(self.align_data, self.data_root, self.download, self.align_split)


@dataclass(frozen=True)
class Options:
    """`output`, `private` and `private_out` may hold `{client}`.

    `settings` are the objective's own options, `recorded` what provenance has of all.
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
    update: str
    proximal: float
    sharing: Sharing
    aligning: Aligning | None
    private: str | None
    private_out: str | None
    handling: Handling
    runtime: Runtime
    seed: int
    dry_run: bool
    recorded: dict[str, Any]


def options_of(values: dict[str, Any]) -> Options:
    """The options of local-train from flat values."""
    settings, rest = divided(values, objectives()[values["objective"]].options)
    if rest["align"] and not rest["align_data"]:
        raise UsageError(
            f"--align {rest['align']}: give --align-data too, the public images that the "
            "targets were made from"
        )
    known = {"settings": settings, "recorded": recorded("local-train", values)}
    return fill_options(Options, {**rest, **known})


@dataclass(frozen=True)
class Doors:
    """Everything local-train was given, opened and checked."""

    options: Options
    partition: Partition
    model: Checkpoint
    images: ImageSet
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
        return (
            replace(plan, first_round=self.round - 1)
            if plan.schedule_rounds > 1
            else plan
        )

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
        update = load(UPDATES[self.options.update].function)
        tensors = update(model.tensors, own)
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
    objective = objectives()[options.objective]
    _check_sharing(options)
    _check_files(options)
    runtime.start(options.runtime)
    partition = read_partition(options.partition)
    model = read_checkpoint(options.model)
    if options.update == "keep":
        check_own(model, partition, options.clients[0])
    else:
        check_global(model, partition)
    for head in objective.head_names:
        check_head(model, head, options.objective)
    images = options.data.images()
    check_dataset(partition, images)
    architecture = architecture_of(model.path, model.facts)
    check_channels(images, architecture, model.path)
    if objective.labels:
        check_labels(images, architecture.classifier or 0, model.path)
    doors = Doors(options, partition, model, images)
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
        inputs += [options.aligning.align, Path(options.aligning.data.name)]
    writes = {
        "-o": options.output,
        "--private-out": options.private_out,
        "--features-out": options.sharing.features_out,
    }
    check_patterns(options.clients, {"--private": options.private}, writes, inputs)


def _check_sharing(options: Options) -> None:
    sharing = options.sharing
    contrastive = objectives()[options.objective].negatives
    for flag, given in (
        ("--dictionary", sharing.dictionary),
        ("--features-out", sharing.features_out),
    ):
        if given and not contrastive:
            raise UsageError(
                f"{flag} does not apply to --objective {options.objective}"
            )
    if sharing.features_out and sharing.alpha and not options.private_out:
        raise UsageError(
            f"--alpha {sharing.alpha:g}: the ensemble of past rounds is kept in a private "
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
    targets, public = read_targets(aligning.align), aligning.data.images()
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
    if plan.schedule == "cosine" and plan.first_round >= plan.schedule_rounds:
        raise UsageError(
            f"--schedule-rounds {plan.schedule_rounds}: this is round {doors.round}, and a "
            "cosine schedule has come down to 0 by then; give the number of all rounds"
        )


def _words(doors: Doors) -> dict[str, Any]:
    """The options as resolved; those of a part that is not in use are left out."""
    o = doors.options
    words = {**o.recorded, "device": runtime.start(o.runtime).type}
    if not doors.dictionary:  # A recipe may give it in the first round too.
        del words["leave-own-out"]
    if doors.plan.schedule_rounds > 1:
        words["first-round"] = doors.plan.first_round
    if o.sharing.features_out:
        words["rows"] = o.sharing.rows(doors.partition.facts.clients)
    return words
