"""Models to compare: opening, order, and names in a metrics file."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from furlkit import console
from furlkit.catalogue import plugin_options
from furlkit.data.sets.datasets import ImageSet
from furlkit.data.sets.source import Source
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import client_order
from furlkit.inputs.images import check_reading, fit_of, reading_of, warn_of_change
from furlkit.inputs.matching import check_channels
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import Computing
from furlkit.models.description import ClassHead, architecture_of, z_width
from furlkit.weights import outlines

CLASSIFYING = ("clusters", "classifier")  # The first head in the model is used.


@dataclass(frozen=True, kw_only=True)
class ModelOptions(Computing):
    """Models to compare on the same images, by layer h or z."""

    models: tuple[Path, ...]
    data: Source
    output: Path
    layer: str


def open_models(
    options: ModelOptions, *more: Path | None
) -> tuple[ImageSet, list[Checkpoint]]:
    """Open the images, and the models sorted by round, client and content.

    The order on the command line does not matter. The models have outlines of tensors;
    the tensors are read later: memory is one model, for any number of models.
    `more`: further files that the command reads.
    """
    check_output(options.output, [*options.models, *more, options.data.name])
    found: dict[str, Checkpoint] = {}
    for path in options.models:
        model = read_checkpoint(path)
        width_of(model, options.layer)
        if model.content in found:
            raise UsageError(
                f"{path}: is the same model as {found[model.content].path}; give every "
                "model once"
            )
        found[model.content] = replace(model, tensors=outlines(model.tensors))
    models = sorted(found.values(), key=_place)
    data = replace(options.data, reading=reading_of(models[0]))
    images = data.images(fit_of(models))
    for model in models:
        check_channels(images, model)
        check_reading(images, model)
    warn_of_change(images, models[0])
    return images, models


def width_of(model: Checkpoint, layer: str) -> int:
    """Width of the layer h or z of a model."""
    if layer == "z":
        return z_width(model)
    return architecture_of(model.path, model.facts).feature_dim


def encoder_plugin(model: Checkpoint) -> dict[str, str]:
    """Version and hash of the package that adds a model's encoder."""
    encoder = model.facts.architecture.get("encoder")
    return plugin_options("furlkit.encoders", encoder)


def class_head(model: Checkpoint, what: str) -> ClassHead:
    """Return the head that classifies images: clusters, or otherwise classifier.

    Among several cluster heads, the best head according to training.
    """
    heads = architecture_of(model.path, model.facts).heads
    found = [name for name in CLASSIFYING if name in heads]
    if not found:
        raise InputError(
            f"{model.path}: has no {' and no '.join(CLASSIFYING)}, and {what} needs "
            "either; create it with init --objective cluster or supervised (with "
            "--update astw, give a model of a round with all parts)"
        )
    number = chosen_head(model) if found[0] == "clusters" else 0
    return ClassHead(found[0], number, heads[found[0]][0])


def chosen_head(model: Checkpoint) -> int:
    """Return the best cluster head according to training."""
    heads = len(architecture_of(model.path, model.facts).heads["clusters"])
    number = model.facts.cluster_head
    if number is not None and not 0 <= number < heads:
        raise InputError(
            f"{model.path}: records head {number} of the clusters as the best, and has "
            f"{heads} heads, counted from 0; re-create it"
        )
    if heads > 1 and number is None and model.facts.round:
        console.warn(
            f"{model.path}: does not record which of {heads} cluster heads has the "
            "lowest loss; head 0 is used; train clients with --tell examples,loss"
        )
    return number or 0


def common_round(models: Sequence[Checkpoint]) -> int | None:
    """Return the round of the models; None for several rounds."""
    rounds = {model.facts.round for model in models}
    return rounds.pop() if len(rounds) == 1 else None


def describe_models(models: Sequence[Checkpoint]) -> str:
    """Describe number and round of models: "5 models of round 3"."""
    number = "1 model" if len(models) == 1 else f"{len(models):,} models"
    round_ = common_round(models)
    return f"{number} of {'several rounds' if round_ is None else f'round {round_}'}"


def _place(model: Checkpoint) -> tuple[int, tuple, str]:
    client = -1 if model.facts.client is None else model.facts.client
    return model.facts.round, client_order(client), model.content
