"""evaluate semi, finetune, transfer: what an encoder is worth when it is trained on."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from furlkit import console, runtime
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import View
from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.metrics import write_metrics
from furlkit.files.partition import Partition, read_partition
from furlkit.files.progress import ProgressFile
from furlkit.inputs.labelled import Options, open_labelled, train_and_test
from furlkit.inputs.matching import check_dataset
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill_each
from furlkit.models.architecture import Architecture, Net, build
from furlkit.models.embedding import predict
from furlkit.models.heads import give_classifier
from furlkit.models.loading import architecture_of, load_net, view_of
from furlkit.randomness import numpy_generator, torch_generator
from furlkit.reports import document as scoring
from furlkit.training import run as training
from furlkit.training.loop import Plan
from furlkit.training.rounds import Finetuning, Part, fill
from furlkit.training.run import Execution

LEAST = 2  # BatchNorm needs two images.
# What a protocol does that has no options for it.
CENTRAL = {
    "mode": "central", "partition": None, "rounds": 1, "fraction": 1.0,
    "choice": "random", "image_size": None,
}  # fmt: skip
DIFFERENT = {"semi": {}, "finetune": {"mode": "federated"}, "transfer": {}}


@dataclass(frozen=True)
class Settings:
    """How to finetune. Without `partition` one client holds all images: mode central.

    `choice` says how labelled images are chosen: random, or stratified by class.
    `image_size` of None is the model's own. `random_init` takes the model's
    architecture and nothing else of it.
    """

    protocol: str
    plan: Plan
    augmentation: Augmentation
    mode: str
    partition: Path | None
    rounds: int
    fraction: float
    choice: str
    hidden: int
    image_size: int | None
    random_init: bool
    save_every: float


@dataclass(frozen=True)
class Doors:
    """Everything that was given, opened and checked; whose images have labels."""

    options: Options
    settings: Settings
    model: Checkpoint
    architecture: Architecture
    partition: Partition | None
    train: ImageSet
    test: ImageSet
    labelled: dict[int, np.ndarray]

    @property
    def seed(self) -> int:
        """What every draw is derived from."""
        return self.options.seed or 0

    @property
    def classes(self) -> int:
        """As many as there are in the images to learn from or in those to test on."""
        return max(self.train.classes, self.test.classes)

    @property
    def examples(self) -> int:
        """All labelled images."""
        return sum(map(len, self.labelled.values()))

    @property
    def parts(self) -> list[Part]:
        """Who trains on what."""
        if self.settings.mode == "federated":
            return [Part(k, index) for k, index in self.labelled.items() if len(index)]
        return [Part(0, np.sort(np.concatenate([*self.labelled.values()])))]


def run(protocol: str, values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Finetune encoder and classifier on labelled images; score them on test images."""
    given = {**CENTRAL, **DIFFERENT[protocol], **train_and_test(values)}
    known = recorded(f"evaluate {protocol}", values)
    options, settings = fill_each(
        (Options, Settings), {**given, "protocol": protocol, "recorded": known}
    )
    doors = _open(options, settings)
    device = runtime.start(options.runtime)
    net = _net(doors, device)
    if options.dry_run:
        return _plan(doors)
    execution = Execution()
    training.prepare(net, execution)
    view = replace(
        view_of(doors.model, settings.augmentation, execution.channels_last),
        size=doors.architecture.image_size,
    )
    jobs, made = _jobs(doors, net, view), _made(doors)
    training.run(jobs, options.output, made, settings.save_every)
    fill(net, jobs.weights)
    predictions = predict(net, doors.test.images, view)
    document = _document(doors, predictions, jobs.loss)
    write_metrics(options.output, document)
    ProgressFile(options.output, made).discard()
    return scoring.result_line(options.output, document, _scored(doors)), document


def _open(options: Options, settings: Settings) -> Doors:
    given = [settings.partition] if settings.partition else []
    check_output(options.output, [*options.inputs, *given])
    if settings.mode == "federated" and not settings.partition:
        raise UsageError(
            "--partition: says which images each client holds, and --mode federated "
            "needs it; give one, or use --mode central"
        )
    partition = read_partition(settings.partition) if settings.partition else None
    model = read_checkpoint(options.model)
    train, test = open_labelled(options, model)
    if partition:
        check_dataset(partition, train)
    architecture = architecture_of(model.path, model.facts)
    size = settings.image_size or architecture.image_size
    return Doors(
        options, settings, model, replace(architecture, image_size=size), partition,
        train, test, _labelled(settings, options.seed or 0, partition, train),
    )  # fmt: skip


def _labelled(
    settings: Settings, seed: int, partition: Partition | None, train: ImageSet
) -> dict[int, np.ndarray]:
    """The labelled images of each client; those of one for all without a partition."""
    held = {0: np.arange(len(train.images))}
    if partition:
        held = {k: partition.of(k) for k in range(partition.facts.clients)}
    labels = train.labels if settings.choice == "stratified" else None
    labelled = {}
    for client, index in held.items():
        rng = numpy_generator(seed, "labelled", client)
        labelled[client] = choose(index, settings.fraction, labels, rng)
        if settings.mode == "federated" and len(index) < LEAST:
            console.warn(
                f"client {client} has {len(index)} images, training needs {LEAST} at "
                "least; it is left out"
            )
            labelled[client] = index[:0]
    if sum(map(len, labelled.values())) < LEAST:
        raise InputError(
            f"{partition.path if partition else train.name}: has too few images to "
            f"train on, {LEAST} labelled ones are the least"
        )
    return labelled


def choose(
    index: np.ndarray,
    fraction: float,
    labels: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray:
    """Which of some images are labelled: a fraction of them, but two if there are two.

    With `labels` the fraction is taken of every class; where that is no whole number,
    the classes that lose most by rounding down get one more, until the sum is right.
    The order of `index` does not matter. Without `labels`, a larger fraction drawn from
    an equal generator has all images of a smaller one.
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
    """`count` shared out in proportion to `sizes`, largest remainders first."""
    exact = sizes * count / sizes.sum()
    quotas = np.floor(exact.round(9)).astype(np.int64)
    # Ties are drawn: clients that are alike must not all leave out the same classes.
    order = np.lexsort((rng.random(len(sizes)), (quotas - exact).round(9)))
    quotas[order[: count - quotas.sum()]] += 1
    return quotas


def _net(doors: Doors, device: torch.device) -> Net:
    """The encoder, of the model or drawn anew, and a new classifier."""
    if doors.settings.random_init:
        drawn = torch_generator(doors.seed, "finetune", "encoder")
        net = build(doors.architecture, drawn).to(device)
    else:
        net = load_net(doors.model, device)
    return give_classifier(
        net, doors.architecture.feature_dim, doors.settings.hidden, doors.classes,
        torch_generator(doors.seed, "finetune", "classifier"),
    )  # fmt: skip


def _jobs(doors: Doors, net: Net, view: View) -> Finetuning:
    s, train = doors.settings, doors.train
    labels = np.asarray(train.labels)
    purpose = (doors.seed, "finetune")
    return Finetuning(
        net, train.images, labels, view, doors.parts, s.plan, s.rounds, purpose
    )  # fmt: skip


def _words(doors: Doors) -> dict[str, Any]:
    """The options, as the document and the progress file have them."""
    return {
        **doors.options.recorded,
        "image-size": doors.architecture.image_size,
        **doors.options.runtime.resolved_options(),
    }


def _facts(doors: Doors) -> dict[str, Any]:
    """What was finetuned, and on how many labels."""
    s = doors.settings
    return {
        "protocol": s.protocol,
        "mode": s.mode,
        "fraction": s.fraction,
        "rounds": s.rounds,
        "epochs": s.plan.epochs,
        "random_init": s.random_init,
        "train_examples": doors.examples,
        "labelled": {str(k): len(index) for k, index in doors.labelled.items()},
    }


def _made(doors: Doors) -> Provenance:
    marks = {"train": doors.train.fingerprint, "test": doors.test.fingerprint}
    words = {**_words(doors), **_facts(doors)}
    words.update(data=marks, classes=doors.classes)
    return Provenance("evaluate", words, doors.seed, _inputs(doors))


def _inputs(doors: Doors) -> dict[str, str]:
    inputs = {"model": doors.model.content}
    if doors.partition:
        inputs["partition"] = doors.partition.content
    return inputs


def _document(doors: Doors, predictions: torch.Tensor, loss: float) -> dict[str, Any]:
    labels = torch.from_numpy(np.asarray(doors.test.labels))
    return {
        **_facts(doors),
        **scoring.scores(predictions, labels, doors.classes),
        **scoring.origins(doors.model, doors.train, doors.test),
        "train_loss": loss,
        "options": _words(doors),
        "seed": doors.seed,
        "inputs": _inputs(doors),
    }


def _scored(doors: Doors) -> str:
    name = scoring.model_name(doors.model)
    return f"new weights in place of the {name}" if doors.settings.random_init else name


def _plan(doors: Doors) -> tuple[str, dict[str, Any]]:
    s, images = doors.settings, len(doors.test.images)
    who = f"{len(doors.parts):,} clients" if s.mode == "federated" else "one place"
    line = (
        f"would score {doors.options.model} by {s.protocol} on {images:,} images, "
        f"after {s.rounds} x {s.plan.epochs} epochs on {doors.examples:,} labelled "
        f"images in {who}"
    )
    return line, {**_facts(doors), "images": images}
