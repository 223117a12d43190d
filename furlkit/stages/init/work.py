"""Draw the weights of a network, copy weights of a source, and write the model."""

from dataclasses import asdict, replace
from typing import Any

from furlkit import console
from furlkit.files.checkpoint import CheckpointFacts, run_id, write_checkpoint
from furlkit.files.facts import Provenance
from furlkit.files.pretrained import Numbers, Pretrained
from furlkit.models.architecture import build
from furlkit.models.description import Architecture
from furlkit.models.loading import tensors_of
from furlkit.models.pretrained import Fitted, fitted
from furlkit.randomness import torch_generator
from furlkit.stages.init import InitOptions
from furlkit.weights import Tensors, parts_of


def make_model(
    options: InitOptions,
    architecture: Architecture,
    source: Pretrained | None,
    facts: CheckpointFacts,
    provenance: Provenance,
) -> tuple[str, dict[str, Any]]:
    """Write the model, unless in a dry run; return the result."""
    net = build(architecture, torch_generator(options.seed, "init"))
    tensors = tensors_of(net)
    if source:
        taken = fitted(source, net, tensors, architecture)
        tensors.update(taken.tensors)
        used = tuple(facts.mean), tuple(facts.std)
        _tell_source(source, tensors, taken, used)
    total = sum(p.numel() for p in net.parameters())
    encoder = sum(p.numel() for p in net.encoder.parameters())
    line = (
        f"{options.output}: {architecture.encoder} for {architecture.image_size} x "
        f"{architecture.image_size} x {architecture.channels}, {total:,} parameters, "
        f"{encoder:,} of them in the encoder, h has {architecture.feature_dim}"
    )
    named = replace(facts, run=options.run_name or run_id(tensors, facts, provenance))
    data = {"parameters": total, "encoder_parameters": encoder, **asdict(named)}
    if not options.dry_run:
        data["content"] = write_checkpoint(options.output, tensors, named, provenance)
    return line, data


def _tell_source(
    source: Pretrained, tensors: Tensors, taken: Fitted, used: tuple[Numbers, Numbers]
) -> None:
    """Print the copied, the new and the changed parts of the model."""
    copied = parts_of(taken.tensors)
    new = sorted({*parts_of(tensors)} - {*copied})
    drawn = f"; drawn from --seed: {', '.join(new)}" if new else ""
    left = f"; left out: {', '.join(taken.left_out)}" if taken.left_out else ""
    normal = "" if source.normalisation != used else ", mean and std of images"
    console.info(f"{source.path}: copied {', '.join(copied)}{normal}{drawn}{left}")
    if taken.changes:
        changes = "; ".join(taken.changes)
        console.warn(f"{source.path}: adapted to the new model: {changes}")
