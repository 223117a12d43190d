"""distill: the server's student learns to arrange public images as the clients do."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from furlkit import runtime
from furlkit.aggregators.similarity_rows import Similarities
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.fingerprint import same_dataset
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import (
    Checkpoint,
    CheckpointFacts,
    read_checkpoint,
    write_checkpoint,
)
from furlkit.files.ensemble import Ensemble, read_ensemble
from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile
from furlkit.inputs.matching import check_channels
from furlkit.inputs.models import width_of
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill
from furlkit.models.architecture import Net
from furlkit.models.loading import architecture_of, load_net, tensors_of, view_of
from furlkit.objectives.similarity import Distiller
from furlkit.randomness import torch_generator
from furlkit.runtime import Runtime
from furlkit.training import run as training
from furlkit.training.loop import Epoch, Plan, Purpose, positions
from furlkit.training.run import Execution


@dataclass(frozen=True)
class Options:
    """`temperature` is tau_S and `layer` h or z; None uses the ensemble's.

    `ema` is zeta, the momentum of the slow copy; `anchors` is m, the queue's length.
    """

    ensemble: Path
    model: Path
    data: Source
    output: Path
    augmentation: Augmentation
    plan: Plan
    layer: str | None
    temperature: float | None
    ema: float
    anchors: int
    execution: Execution
    runtime: Runtime
    seed: int
    dry_run: bool
    recorded: dict[str, Any]


@dataclass(frozen=True)
class Inputs:
    """What distill was given, opened and checked; `net` is the student at the start."""

    options: Options
    ensemble: Ensemble
    model: Checkpoint
    images: ImageSet
    net: Net

    @property
    def layer(self) -> str:
        """The student's layer that is compared, h or z."""
        return self.options.layer or self.ensemble.facts.layer

    @property
    def tau(self) -> float:
        """The student's temperature."""
        return self.options.temperature or self.ensemble.facts.temperature

    @property
    def provenance(self) -> Provenance:
        """How the global model is made."""
        o = self.options
        resolved = {
            **o.recorded,
            "layer": self.layer,
            "temperature": self.tau,
            **o.runtime.resolved_options(),
        }
        contents = {"ensemble": self.ensemble.content, "start": self.model.content}
        return Provenance("distill", resolved, o.seed, contents)


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Train the student on the public images and write it as the global model."""
    options = fill(Options, {**values, "recorded": recorded("distill", values)})
    inputs = _open(options)
    facts = inputs.ensemble.facts
    line = (
        f"{options.output}: round {facts.round}, distilled from {len(facts.clients)} "
        f"client{'s' * (len(facts.clients) > 1)} on {facts.examples:,} public images"
    )
    data: dict[str, Any] = {"round": facts.round, "images": facts.examples}
    if not options.dry_run:
        last = _train(inputs)
        start = inputs.model.facts
        about = CheckpointFacts(
            "global", facts.round, start.architecture, start.mean, start.std,
            examples=facts.examples, parent=inputs.model.content,
            loss=sum(last.losses.values()),
        )  # fmt: skip
        tensors, provenance = tensors_of(inputs.net), inputs.provenance
        content = write_checkpoint(options.output, tensors, about, provenance)
        data.update(content=content, **asdict(last))
        ProgressFile(options.output, provenance).discard()
    return line, data


def _open(options: Options) -> Inputs:
    given = [options.ensemble, options.model, Path(options.data.name)]
    check_output(options.output, given)
    device = runtime.start(options.runtime)
    ensemble, model = read_ensemble(options.ensemble), read_checkpoint(options.model)
    images = options.data.images()
    if difference := same_dataset(ensemble.facts.dataset, images.fingerprint):
        raise InputError(
            f"{ensemble.path}: is of other images than {images.name}: {difference}; "
            "give the --data that embed was given"
        )
    index = ensemble.index
    if len(index) < 2 or not 0 <= index.min() <= index.max() < len(images.images):
        raise InputError(
            f"{ensemble.path}: names {len(index)} images, {images.name} has "
            f"{len(images.images)}; expected at least 2 of them"
        )
    if options.anchors < min(options.plan.batch_size, len(index)):
        cure = "an image must find itself among them; lower --batch-size"
        raise UsageError(f"--anchors {options.anchors}: fewer than a batch, but {cure}")
    check_channels(images, architecture_of(model.path, model.facts), model.path)
    inputs = Inputs(options, ensemble, model, images, load_net(model, device))
    width_of(model, inputs.layer)
    return inputs


def _train(inputs: Inputs) -> Epoch:
    options, device = inputs.options, runtime.device_of(inputs.options.runtime)
    training.prepare(inputs.net, options.execution)
    view = view_of(inputs.model, options.augmentation, options.execution.channels_last)
    images = Images(inputs.images.images, None, inputs.ensemble.index, view, device)
    purpose = (options.seed, "distill", inputs.ensemble.facts.round)
    distiller = Distiller(
        inputs.net,
        _similarities(inputs.ensemble, device),
        layer=inputs.layer,
        width=width_of(inputs.model, inputs.layer),
        anchors=options.anchors,
        temperature=inputs.tau,
        ema=options.ema,
    )
    job = training.Job(
        title="student",
        learner=distiller,
        images=images,
        plan=options.plan,
        purpose=purpose,
        begin=lambda: distiller.fill(_first_keys(options, images, purpose)),
    )
    every = options.execution.save_every
    return training.run(job, options.output, inputs.provenance, every)


def _similarities(ensemble: Ensemble, device: torch.device) -> Similarities:
    """The ensemble on the training device; a matrix stays on disk."""
    parts = [torch.from_numpy(part).to(device) for part in ensemble.parts.values()]
    columns = [
        torch.from_numpy(places).long().to(device)
        for places in ensemble.columns.values()
    ]
    tau_T, name = ensemble.facts.temperature, str(ensemble.path)
    return Similarities(parts, columns, ensemble.matrix, tau_T=tau_T, name=name)


def _first_keys(options: Options, images: Images, purpose: Purpose) -> Iterator[Batch]:
    """Random batches that fill the queue; their steps count up to -1."""
    size = options.plan.batch_size
    steps = -(-options.anchors // min(size, len(images)))
    for step in range(steps):
        index = positions(images, size, (*purpose, "fill"), step)
        generator = torch_generator(*purpose, "fill", step)
        yield images.batch(index, generator, step - steps)
