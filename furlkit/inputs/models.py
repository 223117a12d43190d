"""Models that are compared: which they are, and how a metrics file names them."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from furlkit.data.sets.datasets import ImageSet
from furlkit.errors import UsageError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.inputs.matching import check_channels
from furlkit.models.loading import architecture_of, fitting_net, z_width


def read_models(
    paths: Sequence[Path], layer: str, images: ImageSet
) -> list[Checkpoint]:
    """Read and check models that see the same images, by round, client and content.

    Their order on the command line does not matter. They come without tensors, which
    are read again when it is their turn: memory is one model, however many there are.
    """
    found: dict[str, Checkpoint] = {}
    for path in paths:
        model = read_checkpoint(path)
        fitting_net(model)
        check_channels(images, architecture_of(path, model.facts), path)
        width_of(model, layer)
        if model.content in found:
            raise UsageError(
                f"{path}: is the same model as {found[model.content].path}, which says "
                "nothing of how models differ; give every model once"
            )
        found[model.content] = replace(model, tensors={})
    return sorted(found.values(), key=_place)


def width_of(model: Checkpoint, layer: str) -> int:
    """How many numbers the layer h or z of a model has."""
    if layer == "z":
        return z_width(model)
    return architecture_of(model.path, model.facts).feature_dim


def common_round(models: Sequence[Checkpoint]) -> int | None:
    """The round all models are of, or None where they are of several."""
    rounds = {model.facts.round for model in models}
    return rounds.pop() if len(rounds) == 1 else None


def describe_models(models: Sequence[Checkpoint]) -> str:
    """How many models, and of which round: "5 models of round 3"."""
    number = "1 model" if len(models) == 1 else f"{len(models):,} models"
    round_ = common_round(models)
    return f"{number} of {'several rounds' if round_ is None else f'round {round_}'}"


def _place(model: Checkpoint) -> tuple[int, int, str]:
    client = -1 if model.facts.client is None else model.facts.client
    return model.facts.round, client, model.content
