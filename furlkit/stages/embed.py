"""embed: outputs of a model for images, or the cosines between the outputs."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from furlkit import runtime
from furlkit.catalogue import recorded
from furlkit.data.augment import Augmentation
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.exchanges.style import generator, style_encoder
from furlkit.files.checkpoint import Checkpoint, check_finite, read_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.features import PROBABILITIES, FeatureFacts, write_features
from furlkit.files.private import Private, read_private
from furlkit.files.similarity import SHORTEST, kept_of, write_similarity
from furlkit.inputs.existing import already, made_before
from furlkit.inputs.images import open_images
from furlkit.inputs.models import class_head, encoder_plugin, width_of
from furlkit.inputs.parts import chosen_images
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing, fill
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed, embed_probabilities
from furlkit.models.heads import ClassHead
from furlkit.models.loading import load_net, view_of
from furlkit.models.style import personalise, style_net

BLOCK = 1024


@dataclass(frozen=True, kw_only=True)
class EmbedOptions(Computing):
    """`part`: all, public, or the number of a client of the partition.

    `top`: percentage of each row of a similarity to keep, largest first. With the
    private file `personal`, h comes from the client's personal model, or `style` model.
    """

    model: Path
    data: Source
    output: Path
    layer: str
    personal: Path | None
    style: bool
    similarity: bool
    top: float | None
    encoding: str
    partition: Path | None
    part: str


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Write h, z or probabilities of images, or the cosines between images."""
    options = fill(EmbedOptions, {**values, "recorded": recorded("embed", values)})
    _check_usage(options)
    model = read_checkpoint(options.model)
    head, private = _head(model, options.layer), _private(options, model)
    images = open_images(options.data, model)
    index, contents = chosen_images(images, options.partition, options.part)
    device = runtime.start(options.runtime)
    net = load_net(model, device)
    contents["model"] = model.content
    facts = FeatureFacts(
        options.layer, images.fingerprint, options.part, model.facts.client,
        model.facts.round, len(index), run=model.facts.run,
    )  # fmt: skip
    if private:
        net = _personal(options, private, model, net)
        contents["private"] = private.content
        whose = "style" if options.style else "stylised"
        facts = replace(facts, client=private.facts.client, personal=whose)
    kind = "similarities" if options.similarity else options.layer
    line = f"{options.output}: {kind} of {len(index):,} images by {model.path}"
    line += f" and {private.path}" if private else ""
    data: dict[str, Any] = {"images": len(index), "layer": options.layer}
    if not options.dry_run:
        resolved = {"head": head.name} if head else {}
        resolved = {**options.resolved, **encoder_plugin(model), **resolved}
        provenance = Provenance("embed", resolved, None, contents)
        written = "similarity" if options.similarity else "features"
        content = made_before(options, written, provenance, facts)
        if content:
            return already(options.output, content)
        view = view_of(model, Augmentation())
        shown = (net, images.images, index, view)
        rows = (
            embed_probabilities(*shown, head) if head else embed(*shown, options.layer)
        )
        data["content"] = _write(options, rows, index, facts, provenance)
    return line, data


def _check_usage(options: EmbedOptions) -> None:
    given = (options.model, options.partition, options.personal, options.data.name)
    check_output(options.output, given)
    if options.similarity and options.layer == PROBABILITIES:
        raise UsageError(f"--similarity does not apply to --share {PROBABILITIES}")


def _head(model: Checkpoint, layer: str) -> ClassHead | None:
    """Return the head of the probabilities; None for h and z, which must exist."""
    if layer == PROBABILITIES:
        return class_head(model, f"--share {PROBABILITIES}")
    width_of(model, layer)
    return None


def _private(options: EmbedOptions, model: Checkpoint) -> Private | None:
    """Read --personal; for a client's model, it must be the client's file."""
    if options.personal is None:
        return None
    if options.layer != "h":
        raise UsageError(
            f"--layer {options.layer}: a personal model has only h (FedStyle Eq. 4); "
            "leave out --personal, or use --layer h"
        )
    return read_private(options.personal, model.facts.client)


def _personal(
    options: EmbedOptions, private: Private, model: Checkpoint, net: Net
) -> Net:
    """Return the net with the encoder of FedStyle Eq. 4, or the style model."""
    device = next(net.parameters()).device
    style = style_net(model, style_encoder(private, model), device)
    if options.style:
        return style
    personalise(net, style, generator(private, model))
    return net


def _write(
    options: EmbedOptions,
    rows: torch.Tensor,
    index: np.ndarray,
    facts: FeatureFacts,
    provenance: Provenance,
) -> str:
    more = (index, facts, provenance, options.encoding)
    if not options.similarity:
        check_finite(options.model, f"{options.layer} of the images", rows.numpy())
        return write_features(options.output, rows.numpy(), *more)
    _check_directions(options.model, rows)
    unit = F.normalize(rows.to(runtime.device_of(options.runtime)), dim=1)

    def blocks() -> Iterator[torch.Tensor]:
        for start in range(0, len(unit), BLOCK):
            yield unit[start : start + BLOCK] @ unit.T

    if options.top is None:
        arrays = (block.cpu().numpy() for block in blocks())
        return write_similarity(options.output, arrays, *more)
    kept = []
    for start, block in zip(range(0, len(unit), BLOCK), blocks(), strict=True):
        block.diagonal(start).fill_(2)  # After rounding, a twin may be nearer.
        kept.append(block.topk(kept_of(options.top, len(unit)), dim=1))
    values = torch.cat([block.values for block in kept]).clamp(max=1).cpu().numpy()
    columns = torch.cat([block.indices for block in kept]).cpu().numpy()
    return write_similarity(options.output, [values], *more, columns)


def _check_directions(model: Path, rows: torch.Tensor) -> None:
    """Check that rows are finite and have a direction: cosines need directions."""
    length, n = torch.linalg.vector_norm(rows, dim=1), len(rows)
    if broken := int((~torch.isfinite(length)).sum()):
        raise InputError(
            f"{model}: gives NaN or infinity for {broken:,} of {n:,} images; the model "
            "has diverged, train again with a lower --lr"
        )
    if zeros := int((length < SHORTEST).sum()):
        raise InputError(
            f"{model}: gives zeros for {zeros:,} of {n:,} images, which have no cosine; "
            "the model is dead or has collapsed, train again with a lower --lr"
        )
