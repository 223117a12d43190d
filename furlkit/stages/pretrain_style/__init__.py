"""pretrain-style: a model of the style of a client's images (FedStyle)."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit.catalogue import recorded
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.facts import Provenance
from furlkit.files.lock import holding
from furlkit.files.partition import Partition, read_partition
from furlkit.files.progress import ProgressFile
from furlkit.inputs import matching
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import Output, already, earlier_result, unchanged
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
from furlkit.models.description import Architecture, style_architecture
from furlkit.training.plan import Execution, Plan

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
    partition = read_partition(options.partition) if options.partition else None
    model = read_checkpoint(options.model)
    matching.check_start(model, partition, None)
    architecture = style_architecture(model, options.projector)
    images = open_images(options.data, model)
    contents = by_role("pretrain-style", model=model, partition=partition)
    if partition:
        matching.check_dataset(partition, images)
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
    path = fill(options.output, number)
    with holding(path):
        existing = unchanged(options, Output(path, "private", how, whose))
        if existing:
            trained = earlier_result(path, existing[0].content)
            result = already(*_result(inputs, number, trained))
        else:
            from furlkit.stages.pretrain_style.work import train_style  # Imports torch.

            result = _result(inputs, number, train_style(inputs, number, path))
        ProgressFile(path, how).discard()
    return result


def _result(inputs: Inputs, number: ClientId, data: dict[str, Any]) -> Result:
    output, plan = fill(inputs.options.output, number), inputs.options.plan
    examples = len(inputs.index_of(number))
    how = f"{plan.epochs} epochs" if plan.epochs else "untrained"
    line = f"{output}: the style model of client {number}, {examples:,} images, {how}"
    if "losses" in data:
        line += f", loss {sum(data['losses'].values()):.4f}"
    return line, {**data, "client": number, "examples": examples}
