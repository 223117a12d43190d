"""evaluate: one module for each protocol, and how each of them ends."""

from typing import Any

from furlkit.files.metrics import write_metrics
from furlkit.reports.document import result_line

Result = tuple[str, dict[str, Any]]


def write_document(options: Any, found: dict[str, Any]) -> dict[str, Any]:
    """Write what was found, with the options that it depends on."""
    seed = getattr(options, "seed", None)  # Not every protocol draws something.
    document = {"options": options.resolved, "seed": seed, **found}
    write_metrics(options.output, document)
    return document


def write_scores(options: Any, found: dict[str, Any], scored: str) -> Result:
    """Write scores; `scored` says which model they are of."""
    document = write_document(options, found)
    return result_line(options.output, document, scored), document
