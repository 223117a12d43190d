"""pretrain-style: a model of the style of a client's images (FedStyle)."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import runtime
from furlkit.catalogue import recorded
from furlkit.data.augmentation import Augmentation
from furlkit.data.batches import Images
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.facts import Provenance
from furlkit.files.lock import holding
from furlkit.files.partition import Partition, read_partition
from furlkit.files.private import PrivateFacts, write_private
from furlkit.files.progress import ProgressFile
from furlkit.inputs import matching
from furlkit.inputs.existing import ALREADY, content_of
from furlkit.inputs.images import open_images
from furlkit.inputs.models import encoder_plugin
from furlkit.inputs.paths import check_patterns, fill
from furlkit.inputs.settings import Computing
from furlkit.inputs.settings import fill as fill_options
from furlkit.inputs.sites import (
    check_one_site,
    chosen_clients,
    images_hash,
    images_of,
)
from furlkit.models.architecture import Net, build
from furlkit.models.description import Architecture
from furlkit.models.loading import tensors_of, view_of
from furlkit.models.style import PREFIX, style_architecture
from furlkit.objectives import style
from furlkit.objectives.learner import Stateless
from furlkit.randomness import torch_generator
from furlkit.training import run as training
from furlkit.training.loop import Purpose
from furlkit.training.plan import Execution, Plan
from furlkit.weights import parts_of

Result = tuple[str, dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class PretrainStyleOptions(Computing):
    """`output` may contain `{client}`; `projector`: widths of g_s."""

    partition: Path | None
    model: Path
    clients: tuple[ClientId, ...]
    output: str
    data: Source
    projector: tuple[int, ...]
    temperature: float
    reduction: str
    normalise: bool
    plan: Plan
    execution: Execution
    seed: int


class Inputs(NamedTuple):
    """Opened and checked inputs of pretrain-style, common to the clients."""

    options: PretrainStyleOptions
    partition: Partition | None
    model: Checkpoint
    architecture: Architecture
    images: ImageSet
    provenance: Provenance

    def index_of(self, client: ClientId) -> np.ndarray:
        """Positions of a client's images in the dataset."""
        return images_of(client, self.partition, self.images)


def run(values: dict[str, Any]) -> Iterator[Result]:
    """Train the style models of the clients in turn; yield each result."""
    clients = chosen_clients(values["clients"], values["partition"])
    known = {**values, "recorded": recorded("pretrain-style", values)}
    known["clients"] = clients
    inputs = _open(fill_options(PretrainStyleOptions, known))
    for number in inputs.options.clients:
        if inputs.options.dry_run:
            yield _result(inputs, number, {})
        else:
            yield _made(inputs, number)


def _open(options: PretrainStyleOptions) -> Inputs:
    given = (options.model, options.partition, options.data.name)
    check_patterns(options.clients, {}, {"-o": options.output}, given)
    if options.partition is None:
        check_one_site(options.clients)
    runtime.start(options.runtime)
    partition = read_partition(options.partition) if options.partition else None
    model = read_checkpoint(options.model)
    matching.check_start(model, partition, None)
    architecture = style_architecture(model, options.projector)
    images = open_images(options.data, model)
    contents = {"global": model.content}
    if partition:
        matching.check_dataset(partition, images)
        contents["partition"] = partition.content
    else:
        contents["data"] = images_hash(images)  # The file stays at the site.
    resolved = {**options.resolved, **encoder_plugin(model)}
    how = Provenance("pretrain-style", resolved, options.seed, contents)
    inputs = Inputs(options, partition, model, architecture, images, how)
    source = str(options.partition or images.name)
    for number in options.clients:
        matching.check_size(source, number, inputs.index_of(number))
    sizes = {number: len(inputs.index_of(number)) for number in options.clients}
    if options.plan.epochs:
        matching.check_batches(source, sizes, options.plan.batch_size)
    return inputs


def _made(inputs: Inputs, number: ClientId) -> Result:
    """Make a client's file, unless this command has already made it."""
    options, how, whose = inputs.options, inputs.provenance, {"client": number}
    output = fill(options.output, number)
    with holding(output):
        made = None if options.force else content_of(output, "private", how, whose)
        data = {"content": made, "unchanged": True}
        if made is None:
            data = _train(inputs, number, output)
        ProgressFile(output, how).discard()
    line, data = _result(inputs, number, data)
    return f"{line} ({ALREADY})" if made else line, data


def _train(inputs: Inputs, number: ClientId, output: Path) -> dict[str, Any]:
    """FedStyle Algorithm 2; without epochs the model stays untrained."""
    options = inputs.options
    data: dict[str, Any] = {}
    purpose: Purpose = (options.seed, "pretrain-style", number)
    net = build(inputs.architecture, torch_generator(*purpose))
    net.to(runtime.device_of(options.runtime))
    if options.plan.epochs:
        job = _job(inputs, number, net, purpose)
        every = options.execution.save_every
        data = training.run_jobs(job, output, inputs.provenance, every).facts()
    tensors = {PREFIX + name: array for name, array in tensors_of(net).items()}
    facts = PrivateFacts(number, 0, parts_of(tensors), [])
    content = write_private(output, tensors, {}, facts, inputs.provenance)
    return {**data, "content": content}


def _job(inputs: Inputs, number: ClientId, net: Net, purpose: Purpose) -> training.Job:
    options, index = inputs.options, inputs.index_of(number)
    training.prepare(net, options.execution)
    view = view_of(inputs.model, Augmentation(), options.execution.channels_last)
    device = runtime.device_of(options.runtime)
    step = partial(
        style.step,
        temperature=options.temperature,
        reduction=options.reduction,
        normalised=options.normalise,
    )
    return training.Job(
        title=f"style of client {number}",
        learner=Stateless(net, step),
        images=Images(inputs.images.images, None, index, view, device),
        plan=options.plan,
        purpose=purpose,
        may_collapse=True,
    )


def _result(inputs: Inputs, number: ClientId, data: dict[str, Any]) -> Result:
    output, plan = fill(inputs.options.output, number), inputs.options.plan
    examples = len(inputs.index_of(number))
    how = f"{plan.epochs} epochs" if plan.epochs else "untrained"
    line = f"{output}: the style model of client {number}, {examples:,} images, {how}"
    if "losses" in data:
        line += f", loss {sum(data['losses'].values()):.4f}"
    return line, {**data, "client": number, "examples": examples}
