"""evaluate semi, finetune, transfer: score an encoder after finetuning."""

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import PROTOCOLS, load, recorded
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import label_fingerprint
from furlkit.data.sets.groups import recorded_groups, whole_groups
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.facts import Provenance
from furlkit.files.partition import Partition, read_partition
from furlkit.files.progress import ProgressFile
from furlkit.inputs import labelled
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores
from furlkit.inputs.existing import already
from furlkit.inputs.matching import check_batch, check_batches, check_dataset
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.description import Architecture, architecture_of
from furlkit.randomness import derive, numpy_generator
from furlkit.reports import document as scoring
from furlkit.stages.evaluate import work_of, write_scores
from furlkit.training.plan import Plan

LEAST = 2  # BatchNorm needs two images.
# Values for protocols without these options.
CENTRAL = {
    "partition": None, "rounds": 1, "fraction": 1.0, "choice": "random",
    "image_size": None, "groups": None,
}  # fmt: skip
MODES = {"semi": "central", "finetune": "federated", "transfer": "central"}


@dataclass(frozen=True, kw_only=True)
class FinetuneOptions(labelled.LabelledOptions):
    """Options of finetuning. Without `partition` a single client has every image.

    `choice`: labelled images are random, or stratified by class. `image_size`: None for
    the model's size. `random_init`: keep only the model's architecture. `groups`:
    images that are labelled together, for example of a patient.
    """

    protocol: str
    plan: Plan
    augmentation: Augmentation
    mode: str
    partition: Path | None
    rounds: int
    fraction: float
    choice: str
    groups: str | None
    hidden: int
    image_size: int | None
    random_init: bool
    repeats: int
    save_every: float
    seed: int


@dataclass(frozen=True)
class Inputs:
    """Opened and checked inputs; `labelled`: labelled images by client."""

    options: FinetuneOptions
    model: Checkpoint
    architecture: Architecture
    partition: Partition | None
    train: ImageSet
    test: ImageSet
    labelled: dict[int, np.ndarray]

    @property
    def classes(self) -> int:
        """Number of classes in the training or the test images."""
        return max(self.train.classes, self.test.classes)

    @property
    def parts(self) -> dict[int, np.ndarray]:
        """Training images by client."""
        if self.options.mode == "federated":
            return {k: index for k, index in self.labelled.items() if len(index)}
        return {0: np.sort(np.concatenate([*self.labelled.values()]))}

    @property
    def contents(self) -> dict[str, str]:
        """Content hash of each file."""
        files = {"partition": self.partition} if self.partition else {}
        command = f"evaluate {self.options.protocol}"
        groups = {"groups": _hash(self.train)} if self.options.groups else {}
        return by_role(command, model=self.model, **files) | groups

    def repeat(self, number: int) -> "Inputs":
        """Return the inputs with another seed and newly drawn labelled images."""
        if not number:
            return self
        seed = derive(self.options.seed, "repeat", number)
        options = replace(self.options, seed=seed)
        labelled = _labelled(options, self.partition, self.train)
        return replace(self, options=options, labelled=labelled)

    @property
    def facts(self) -> dict[str, Any]:
        """Facts of the finetuning, and numbers of labels."""
        names = ("protocol", "mode", "fraction", "rounds", "random_init")
        return {
            **{name: getattr(self.options, name) for name in names},
            "epochs": self.options.plan.epochs,
            "train_examples": sum(map(len, self.labelled.values())),
            "labelled": {str(k): len(index) for k, index in self.labelled.items()},
        }


def run(protocol: str, values: dict[str, Any]) -> Result:
    """Finetune encoder and classifier on labelled images; score on test images."""
    known = {"protocol": protocol, "recorded": recorded(f"evaluate {protocol}", values)}
    fixed = {**CENTRAL, "mode": MODES[protocol]}
    given = labelled.train_and_test(values)
    inputs = _open(fill(FinetuneOptions, {**fixed, **given, **known}))
    options, train, test = inputs.options, inputs.train, inputs.test
    scored = scoring.model_name(inputs.model)
    if options.random_init:
        scored = f"new weights in place of the {scored}"
    origins = scoring.origins(inputs.model, train, test, inputs.contents)
    known = {**inputs.facts, **origins}
    progress = ProgressFile(options.output, _provenance(inputs))
    if document := existing_scores(options, known):
        progress.discard()
        return already(scoring.result_line(options.output, document, scored), document)
    work = work_of("finetune")
    if options.dry_run:
        work.open_net(inputs)  # The model's tensors must fit.
        return _plan(inputs)
    found = work.score(inputs, _provenance(inputs))
    result = write_scores(options, {**known, **found}, scored, trained=True)
    progress.discard()
    return result


def _open(options: FinetuneOptions) -> Inputs:
    if options.mode == "federated" and not options.partition:
        raise UsageError(
            "--partition: --mode federated needs the images of each client; give a "
            "partition, or use --mode central"
        )
    check_output(options.output, [options.partition])
    partition = read_partition(options.partition) if options.partition else None
    model, train, test = labelled.open_labelled(options, options.image_size)
    train = options.train.with_groups(train, options.groups)
    if partition:
        check_dataset(partition, train)
        _check_groups(partition, train)
    architecture = architecture_of(model.path, model.facts)
    size = options.image_size or architecture.image_size
    # Metrics and progress files record the size in every case, and the number of
    # repeats only above 1.
    known = {
        **options.recorded, **recorded_groups(options.groups), "image-size": size
    }  # fmt: skip
    if options.repeats == 1:
        del known["repeats"]
    options = replace(options, recorded=known)
    inputs = Inputs(
        options, model, replace(architecture, image_size=size), partition, train, test,
        _labelled(options, partition, train),
    )  # fmt: skip
    _check_labelled(inputs)
    return inputs


def _check_groups(partition: Partition, train: ImageSet) -> None:
    """Check that the groups of the partition are known here too."""
    if partition.groups not in (None, _hash(train)):
        raise InputError(
            f"{partition.path}: keeps groups of images together, and {train.name} has "
            f"{'no' if train.groups is None else 'other'} groups here; give --groups "
            "with the value given to partition"
        )


def _hash(train: ImageSet) -> str:
    return "" if train.groups is None else label_fingerprint(train.groups)


def _labelled(
    options: FinetuneOptions, partition: Partition | None, train: ImageSet
) -> dict[int, np.ndarray]:
    """Labelled images by client; without a partition, of client 0.

    A client with too few images gets no labelled images.
    """
    labels = train.labels if options.choice == "stratified" else None
    chosen, choose_some = {}, load(PROTOCOLS["semi"].function)
    for client, index in _held(partition, train).items():
        rng = numpy_generator(options.seed, "labelled", client)
        few = options.mode == "federated" and len(index) < LEAST
        chosen[client] = (
            index[:0] if few else choose_some(index, options.fraction, labels, rng)
        )
        if train.groups is not None and options.fraction < 1 and not few:
            # Whole groups, with about the chosen number of images.
            own = train.groups[index]
            chosen[client] = index[whole_groups(own, len(chosen[client]), rng)]
    return chosen


def _held(partition: Partition | None, train: ImageSet) -> dict[int, np.ndarray]:
    if partition:
        return {k: partition.of(k) for k in range(partition.facts.clients)}
    return {0: np.arange(len(train.images))}


def _check_labelled(inputs: Inputs) -> None:
    """Warn about clients that cannot train; refuse too few labelled images."""
    partition, train = inputs.partition, inputs.train
    for client, index in _held(partition, train).items():
        if inputs.options.mode == "federated" and len(index) < LEAST:
            console.warn(
                f"client {client} has {len(index)} images, training needs at least "
                f"{LEAST}; this client is left out"
            )
    if sum(map(len, inputs.labelled.values())) < LEAST:
        raise InputError(
            f"{partition.path if partition else train.name}: has too few images to "
            f"train on; at least {LEAST} labelled images are needed"
        )
    batch_size = inputs.options.plan.batch_size
    sizes: dict[ClientId, int] = {k: len(index) for k, index in inputs.parts.items()}
    if partition and inputs.options.mode == "federated":
        check_batches(f"{partition.path} that are labelled", sizes, batch_size)
    else:
        check_batch(f"{train.name} that are labelled", sizes[0], batch_size)


def choose(
    index: np.ndarray,
    fraction: float,
    labels: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Choose a fraction of the images to be labelled, at least two if possible.

    With `labels` the fraction applies to every class; fractions of images go to the
    classes with the largest remainders, until the sum is right. The order of `index`
    does not matter. Without `labels`, a larger fraction drawn from an equal generator
    contains the images of a smaller fraction.
    """
    index = rng.permutation(np.sort(index))
    count = min(max(round(fraction * len(index)), LEAST), len(index))
    if labels is None or not count:
        return np.sort(index[:count])
    own = labels[index]
    quotas = _quotas(np.bincount(own), count, rng)
    by_class = np.argsort(own, kind="stable")
    own = own[by_class]
    rank = np.arange(len(own)) - np.searchsorted(own, own)  # Within the class.
    return np.sort(index[by_class[rank < quotas[own]]])


def _quotas(sizes: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Divide `count` in proportion to `sizes`, largest remainders first."""
    exact = sizes * count / sizes.sum()
    quotas = np.floor(exact.round(9)).astype(np.int64)
    # Ties are random: similar clients must not omit the same classes.
    order = np.lexsort((rng.random(len(sizes)), (quotas - exact).round(9)))
    quotas[order[: count - quotas.sum()]] += 1
    return quotas


def _provenance(inputs: Inputs) -> Provenance:
    """Provenance that identifies the progress file of this run."""
    options, train, test = inputs.options, inputs.train, inputs.test
    resolved = {
        **options.resolved,
        **inputs.facts,
        "data": {"train": train.fingerprint, "test": test.fingerprint},
        "classes": inputs.classes,
    }
    return Provenance("evaluate", resolved, options.seed, inputs.contents)


def _plan(inputs: Inputs) -> Result:
    o, facts, images = inputs.options, inputs.facts, len(inputs.test.images)
    who = f"{len(inputs.parts):,} clients" if o.mode == "federated" else "one place"
    line = (
        f"would score {o.model} by {o.protocol} on {images:,} images, after "
        f"{o.rounds} x {o.plan.epochs} epochs on {facts['train_examples']:,} labelled "
        f"images in {who}{f', {o.repeats} times' if o.repeats > 1 else ''}"
    )
    return line, {**facts, "images": images}


def _run_entry(protocol: str, values: dict[str, Any]) -> Result:
    """Call the function of a protocol's entry in the catalogue."""
    return load(PROTOCOLS[protocol].function)(protocol, values)


# The stages of furlkit/cli/evaluate.py.
semi = partial(run, "semi")
finetune = partial(_run_entry, "finetune")
transfer = partial(_run_entry, "transfer")
