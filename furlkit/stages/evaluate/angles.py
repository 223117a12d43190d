"""evaluate angles: angles between models' representations of equal images."""

from collections.abc import Sequence
from typing import Any

from furlkit.catalogue import recorded
from furlkit.errors import InputError, UsageError
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.models import (
    ModelOptions,
    common_round,
    describe_models,
    open_models,
    width_of,
)
from furlkit.inputs.settings import fill
from furlkit.reports.document import describe_checkpoint
from furlkit.stages.evaluate import work_of


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
        "protocol": "angles",
        "layer": options.layer,
        "images": len(images.images),
        "round": common_round(models),
        "models": [describe_checkpoint(model) for model in models],
        "checkpoint": describe_checkpoint(models[0]),
        "data": {"images": images.fingerprint},
        "inputs": by_role("evaluate angles", models=dict(enumerate(models))),
    }
    if document := existing_scores(options, known):
        return already(_line(options, document, seen), document)
    work = work_of("angles")
    work.check_fit(models)
    if options.dry_run:
        plan = {"protocol": "angles", "images": len(images.images)}
        return f"would measure angles between {seen}", plan
    found = work.measure(options, models, images)
    document = write_document(options, {**known, **found})
    return _line(options, document, seen), document


def _line(options: ModelOptions, document: dict[str, Any], seen: str) -> str:
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
