"""evaluate angles: angles between models' representations of equal images."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from furlkit.catalogue import recorded
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.documents import Result
from furlkit.inputs.models import (
    ModelOptions,
    describe_models,
    open_models,
    width_of,
)
from furlkit.inputs.settings import fill
from furlkit.reports.document import describe_checkpoint
from furlkit.stages.evaluate import measure_models, origins_of_models


def run(values: dict[str, Any]) -> Result:
    """Measure the angle between the representations of each image by two models."""
    known = recorded("evaluate angles", values)
    options = fill(ModelOptions, {**values, "recorded": known})
    if len(options.models) < 2:
        raise UsageError(
            f"evaluate angles: found {len(options.models)} model, an angle needs "
            "2 or more"
        )
    images, models = open_models(options)
    _check_widths(models, options.layer)
    seen = f"{describe_models(models)} on {len(images.images):,} images"
    known = {
        **origins_of_models("angles", models),
        "layer": options.layer,
        "images": len(images.images),
        "models": [describe_checkpoint(model) for model in models],
        "data": {"images": images.fingerprint},
    }
    line = partial(_line, options, seen)
    plan = f"would measure angles between {seen}"
    return measure_models(options, models, images, known, line, plan)


def _line(options: ModelOptions, seen: str, document: dict[str, Any]) -> str:
    low, median, high = document["angles"]["quartiles"]
    return (
        f"{options.output}: median angle {median:.1f} degrees (quartiles {low:.1f} to "
        f"{high:.1f}) between {seen}"
    )


def _check_widths(models: Sequence[Checkpoint], layer: str) -> None:
    first = models[0]
    for model in models[1:]:
        if width_of(model, layer) != width_of(first, layer):
            raise InputError(
                f"{model.path}: {layer} has {width_of(model, layer):,} dimensions, "
                f"but {width_of(first, layer):,} in {first.path}; an angle needs "
                "models of one width"
            )
