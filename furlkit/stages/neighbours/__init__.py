"""neighbours: the nearest images of each image of a set, according to a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.catalogue import recorded
from furlkit.data.sets.source import Source
from furlkit.errors import InputError
from furlkit.files.checkpoint import read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.neighbours import NeighbourFacts, write_neighbours
from furlkit.inputs.declared import by_role
from furlkit.inputs.existing import existing_result
from furlkit.inputs.images import open_images
from furlkit.inputs.models import encoder_plugin, width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill


@dataclass(frozen=True, kw_only=True)
class NeighboursOptions(Computing):
    """`part`: all, public, or the number of a client of the partition."""

    model: Path
    data: Source
    output: Path
    layer: str
    nearest: int
    partition: Path | None
    part: str


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write the nearest images of each image, by cosine of a model's h or z."""
    options = fill(
        NeighboursOptions, {**values, "recorded": recorded("neighbours", values)}
    )
    check_output(options.output, (options.model, options.partition, options.data.name))
    model = read_checkpoint(options.model)
    width_of(model, options.layer)
    images = open_images(options.data, model)
    index, contents = chosen_images(images, options.partition, options.part)
    if len(index) < 2:
        raise InputError(
            f"{options.data.name}: part {options.part} has {len(index)} image, which has "
            "no neighbours; take a larger part"
        )
    k = min(options.nearest, len(index) - 1)
    if k < options.nearest:
        console.warn(
            f"--nearest {options.nearest}: is more than the {k:,} others of an image "
            f"in {options.data.name}, part {options.part}; all others are kept"
        )
    contents |= by_role("neighbours", model=model)
    line = f"{options.output}: the {k} nearest of each of {len(index):,} images"
    data: dict[str, Any] = {"images": len(index), "nearest": k}
    if options.dry_run:
        return line, data
    facts = NeighbourFacts(
        options.layer, images.fingerprint, options.part, len(index),
        model.facts.client, model.facts.round,
    )  # fmt: skip
    resolved = {**options.resolved, **encoder_plugin(model)}
    provenance = Provenance("neighbours", resolved, None, contents)
    if made := existing_result(options, "neighbours", provenance, facts, data):
        return made
    from furlkit.stages.neighbours.work import nearest_images  # Imports torch.

    nearest = nearest_images(options, model, images, index, k)
    content = write_neighbours(options.output, nearest, index, facts, provenance)
    return line, {**data, "content": content}
