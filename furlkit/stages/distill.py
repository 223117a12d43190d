"""distill: the server's student learns to arrange public images as the clients do."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from furlkit import runtime
from furlkit.aggregators.similarity_rows import Similarities
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Batch, Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import UsageError
from furlkit.files.checkpoint import (
    Checkpoint,
    CheckpointFacts,
    read_checkpoint,
    write_checkpoint,
)
from furlkit.files.ensemble import Ensemble, read_ensemble
from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile
from furlkit.inputs.existing import already, made_before
from furlkit.inputs.matching import check_channels, check_images
from furlkit.inputs.models import width_of
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.architecture import Net
from furlkit.models.loading import load_net, tensors_of, view_of
from furlkit.objectives.similarity import Distiller
from furlkit.randomness import torch_generator
from furlkit.training import run as training
from furlkit.training.loop import Epoch, Plan, Purpose, positions
from furlkit.training.run import Execution


@dataclass(frozen=True, kw_only=True)
class Options(Computing):
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
    seed: int


@dataclass(frozen=True)
class Inputs:
    """What distill was given, opened and checked; `net` is the student at the start.

    `layer` is the student's that is compared, h or z, and `tau` its temperature.
    """

    options: Options
    ensemble: Ensemble
    model: Checkpoint
    images: ImageSet
    net: Net
    layer: str
    tau: float
    provenance: Provenance


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Train the student on the public images and write it as the global model."""
    words = recorded("distill", values)
    if values["steps"]:
        del words["epochs"]
    options = fill(Options, {**values, "recorded": words})
    inputs = _open(options)
    facts = inputs.ensemble.facts
    line = (
        f"{options.output}: round {facts.round}, distilled from {len(facts.clients)} "
        f"client{'s' * (len(facts.clients) > 1)} on {facts.examples:,} public images"
    )
    data: dict[str, Any] = {"round": facts.round, "images": facts.examples}
    if not options.dry_run:
        start = inputs.model.facts
        about = CheckpointFacts(
            "global", facts.round, start.architecture, start.mean, start.std,
            examples=facts.examples, parent=inputs.model.content,
        )  # fmt: skip
        content = made_before(options, "checkpoint", inputs.provenance, about)
        if content:
            ProgressFile(options.output, inputs.provenance).discard()
            return already(options.output, content)
        last = _train(inputs)
        about = replace(about, loss=sum(last.losses.values()))
        tensors, provenance = tensors_of(inputs.net), inputs.provenance
        content = write_checkpoint(options.output, tensors, about, provenance)
        data.update(content=content, **last.facts())
        ProgressFile(options.output, provenance).discard()
    return line, data


def _open(options: Options) -> Inputs:
    given = (options.ensemble, options.model, options.data.name)
    check_output(options.output, given)
    device = runtime.start(options.runtime)
    ensemble, model = read_ensemble(options.ensemble), read_checkpoint(options.model)
    images = options.data.images()
    check_images(ensemble, images, "give the --data that embed was given")
    if options.anchors < min(options.plan.batch_size, len(ensemble.index)):
        cure = "an image must find itself among them; lower --batch-size"
        raise UsageError(f"--anchors {options.anchors}: fewer than a batch, but {cure}")
    check_channels(images, model)
    net, facts = load_net(model, device), ensemble.facts
    layer, tau = options.layer or facts.layer, options.temperature or facts.temperature
    width_of(model, layer)
    resolved = {**options.resolved, "layer": layer, "temperature": tau}
    contents = {"ensemble": ensemble.content, "start": model.content}
    provenance = Provenance("distill", resolved, options.seed, contents)
    return Inputs(options, ensemble, model, images, net, layer, tau, provenance)


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
