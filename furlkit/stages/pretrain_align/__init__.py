"""pretrain-align: the alignment model, and h and z of the public images."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from furlkit import console
from furlkit.catalogue import divided, objectives, recorded
from furlkit.data.augmentation import Augmentation
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.progress import ProgressFile
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import Output, already, earlier_result, unchanged
from furlkit.inputs.images import open_images
from furlkit.inputs.matching import check_batch, check_heads
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.description import architecture_of, z_width
from furlkit.randomness import numpy_generator
from furlkit.training.plan import Execution, Plan


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
    """Opened and checked inputs of pretrain-align."""

    options: PretrainAlignOptions
    model: Checkpoint
    images: ImageSet
    index: np.ndarray
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
    progress = ProgressFile(options.output, inputs.provenance)
    if contents := _existing(inputs):
        progress.discard()
        trained = earlier_result(options.output, contents["content"])
        files = f"{options.output}, {options.targets_out}"
        return already(files, {**data, **trained, **contents})
    from furlkit.stages.pretrain_align import work  # Imports torch.

    net = work.open_net(inputs)
    if not options.dry_run:
        with console.noted() as warnings:
            last = work.train_alignment(inputs, net)
        data.update(work.write(inputs, net, last), **last.facts())
        Journal(options.output).note_result(data, warnings)
        progress.discard()
    return line, data


def _open(options: PretrainAlignOptions) -> Inputs:
    objective = objectives()[options.objective]
    given = (options.model, options.partition, options.data.name)
    check_output(options.output, given)
    check_output(options.targets_out, (*given, options.output), "--targets-out")
    model = read_checkpoint(options.model)
    check_heads(model, architecture_of(model.path, model.facts), objective)
    z_width(model)
    images = open_images(options.data, model)
    index, contents = chosen_images(images, options.partition, options.part)
    _name_private_images(options)
    index = _drawn(options, index)
    check_batch(images.name, len(index), options.plan.batch_size)
    resolved = {**options.resolved, **encoder_plugin(model)}
    resolved["dataset"] = images.fingerprint
    contents |= by_role("pretrain-align", model=model)
    return Inputs(
        options, model, images, index,
        Provenance("pretrain-align", resolved, options.seed, contents),
    )  # fmt: skip


def _name_private_images(options: PretrainAlignOptions) -> None:
    """Warn about images of clients, which a server does not have.

    Without a partition, nothing tells whether clients have the images.
    """
    if options.partition is None:
        console.info(
            f"{options.data.name}: all images are used as public images; if clients "
            "have some of them, give --partition P --part public"
        )
    elif options.part != "public":
        console.warn(
            f"--part {options.part}: these images are images of clients, not public; "
            "give --part public"
        )


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


def _existing(inputs: Inputs) -> dict[str, str] | None:
    """Content hashes of both files, if this command has made both."""
    options, how, count = inputs.options, inputs.provenance, len(inputs.index)
    about: dict[str, Any] = {"examples": count}
    models = unchanged(options, Output(options.output, "checkpoint", how, about))
    if models is None:
        return None
    about["model"] = models[0].content
    output = Output(options.targets_out, "targets", how, about)
    targets = unchanged(options, output)
    if targets is None:
        return None
    return {"content": models[0].content, "targets": targets[0].content}
