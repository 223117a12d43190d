"""pretrain-align: the alignment model, and h and z of the public images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import runtime
from furlkit.catalogue import divided, objectives, recorded
from furlkit.data.augment import Augmentation
from furlkit.data.batches import Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import (
    Checkpoint,
    CheckpointFacts,
    read_checkpoint,
    write_checkpoint,
)
from furlkit.files.facts import Provenance
from furlkit.files.progress import ProgressFile
from furlkit.files.targets import TargetFacts, write_targets
from furlkit.inputs.existing import ALREADY, content_of, made_before
from furlkit.inputs.images import open_images
from furlkit.inputs.matching import check_batch, check_heads
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import (
    architecture_of,
    load_net,
    tensors_of,
    view_of,
    z_width,
)
from furlkit.randomness import numpy_generator
from furlkit.training import run as training
from furlkit.training.learners import learner_of
from furlkit.training.loop import Epoch
from furlkit.training.plan import Plan
from furlkit.training.run import Execution


@dataclass(frozen=True, kw_only=True)
class PretrainAlignOptions(Computing):
    """`images`: number of random images of the data, or of a part of a partition.

    0 takes all images. `settings`: options of the objective.
    """

    model: Path
    data: Source
    output: Path
    targets_out: Path
    objective: str
    settings: dict[str, Any]
    augmentation: Augmentation
    plan: Plan
    images: int
    partition: Path | None
    part: str
    execution: Execution
    seed: int


@dataclass(frozen=True)
class Inputs:
    """Opened and checked inputs of pretrain-align; `net` is untrained."""

    options: PretrainAlignOptions
    model: Checkpoint
    images: ImageSet
    index: np.ndarray
    net: Net
    provenance: Provenance


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Train a model on public images; write the model and the targets h and z."""
    settings, rest = divided(values, objectives()[values["objective"]].options)
    known = {"settings": settings, "recorded": recorded("pretrain-align", values)}
    options = fill(PretrainAlignOptions, {**rest, **known})
    inputs = _open(options)
    line = (
        f"{options.output}: alignment model trained on {len(inputs.index):,} images; "
        f"their targets h, z in {options.targets_out}"
    )
    data: dict[str, Any] = {"images": len(inputs.index)}
    if not options.dry_run:
        if contents := _made_before(inputs):
            ProgressFile(options.output, inputs.provenance).discard()
            return f"{options.output}, {options.targets_out}: {ALREADY}", contents
        last = _train(inputs)
        data.update(_write(inputs, last), **last.facts())
        ProgressFile(options.output, inputs.provenance).discard()
    return line, data


def _open(options: PretrainAlignOptions) -> Inputs:
    objective = objectives()[options.objective]
    given = (options.model, options.partition, options.data.name)
    check_output(options.output, given)
    check_output(options.targets_out, (*given, options.output), "--targets-out")
    device = runtime.start(options.runtime)
    model = read_checkpoint(options.model)
    check_heads(model, architecture_of(model.path, model.facts), objective)
    z_width(model)
    images = open_images(options.data, model)
    index, contents = chosen_images(images, options.partition, options.part)
    index = _drawn(options, index)
    check_batch(images.name, len(index), options.plan.batch_size)
    resolved = {**options.resolved, **encoder_plugin(model)}
    resolved["dataset"] = images.fingerprint
    contents["model"] = model.content
    return Inputs(
        options, model, images, index, load_net(model, device),
        Provenance("pretrain-align", resolved, options.seed, contents),
    )  # fmt: skip


def _drawn(options: PretrainAlignOptions, index: np.ndarray) -> np.ndarray:
    """Draw `images` indices, in the order of the dataset."""
    if options.images > len(index):
        raise UsageError(
            f"--images {options.images}: {options.data.name} has {len(index):,}"
        )
    if options.images:
        rng = numpy_generator(options.seed, "pretrain-align", "images")
        index = np.sort(rng.choice(index, options.images, replace=False))
    if len(index) < 2:
        raise InputError(
            f"{options.data.name}: {len(index)} images; training needs at least 2"
        )
    return index


def _train(inputs: Inputs) -> Epoch:
    options, device = inputs.options, runtime.device_of(inputs.options.runtime)
    training.prepare(inputs.net, options.execution)
    view = view_of(inputs.model, options.augmentation, options.execution.channels_last)
    objective = objectives()[options.objective]
    job = training.Job(
        title="alignment model",
        learner=learner_of(objective, inputs.net, options.settings),
        images=Images(inputs.images.images, None, inputs.index, view, device),
        plan=options.plan,
        purpose=(options.seed, "pretrain-align"),
        pairs=objective.pairs,
    )
    every = options.execution.save_every
    return training.run_jobs(
        job, options.output, inputs.provenance, every, save_last=True
    )


def _made_before(inputs: Inputs) -> dict[str, Any] | None:
    """Content hashes of both files, if this command has made both."""
    how, count = inputs.provenance, {"examples": len(inputs.index)}
    model = made_before(inputs.options, "checkpoint", how, count)
    if model is None:
        return None
    about = {**count, "model": model}
    targets = content_of(inputs.options.targets_out, "targets", how, about)
    if targets is None:
        return None
    return {"content": model, "targets": targets, "unchanged": True}


def _write(inputs: Inputs, last: Epoch) -> dict[str, str]:
    """Write the model before the targets: targets name the model, and make waits."""
    options, start, count = inputs.options, inputs.model.facts, len(inputs.index)
    facts = CheckpointFacts(
        "align", 0, start.architecture, start.mean, start.std, examples=count,
        parent=inputs.model.content, loss=sum(last.losses.values()),
        init_seed=start.init_seed, reading=start.reading, run=start.run,
    )  # fmt: skip
    tensors = tensors_of(inputs.net)
    model = write_checkpoint(options.output, tensors, facts, inputs.provenance)
    images, view = inputs.images, view_of(inputs.model, Augmentation())
    rows = {
        layer: embed(inputs.net, images.images, inputs.index, view, layer).numpy()
        for layer in ("h", "z")
    }
    described = TargetFacts(
        model, start.architecture, start.mean, start.std, images.fingerprint, count,
    )  # fmt: skip
    more = (inputs.index, described, inputs.provenance)
    targets = write_targets(options.targets_out, rows, *more)
    return {"content": model, "targets": targets}
