"""evaluate: one module for each protocol, and the common end of the protocols."""

from collections.abc import Callable, Sequence
from typing import Any

from furlkit.catalogue import load
from furlkit.files.checkpoint import Checkpoint
from furlkit.inputs.declared import by_role
from furlkit.inputs.documents import Result, existing_scores, write_document
from furlkit.inputs.existing import already
from furlkit.inputs.models import common_round
from furlkit.reports.document import describe_checkpoint, result_line


def work_of(protocol: str) -> Any:
    """Import the module that computes the scores of a protocol, and torch."""
    return load(f"furlkit.stages.evaluate.work.{protocol}")


def write_scores(
    options: Any,
    found: dict[str, Any],
    scored: str,
    trained: bool = False,
    warnings: Sequence[str] = (),
) -> Result:
    """Write scores; `scored` names the model."""
    document = write_document(options, found, trained, warnings)
    return result_line(options.output, document, scored), document


def origins_of_models(protocol: str, models: Sequence[Checkpoint]) -> dict[str, Any]:
    """Entries of a document about several models, known before the work."""
    numbered = dict(enumerate(models))
    return {
        "protocol": protocol,
        "round": common_round(models),
        "checkpoint": describe_checkpoint(models[0]),
        "inputs": by_role(f"evaluate {protocol}", models=numbered),
    }


def measure_models(
    options: Any,
    models: Sequence[Checkpoint],
    images: Any,
    known: dict[str, Any],
    line: Callable[[dict[str, Any]], str],
    plan: str,
) -> Result:
    """Measure several models on images, unless the scores exist.

    `known`: entries known before the work. `line` describes a document; `plan` describes
    the work in a dry run.
    """
    if document := existing_scores(options, known):
        return already(line(document), document)
    work = work_of(known["protocol"])
    work.check_fit(models)
    if options.dry_run:
        return plan, {name: known[name] for name in ("protocol", "images")}
    measured = work.measure(options, models, images)
    document = write_document(options, {**known, **measured})
    return line(document), document
