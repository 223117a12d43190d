"""evaluate: one module for each protocol, and the common end of the protocols."""

from typing import Any

from furlkit.catalogue import load
from furlkit.inputs.documents import Result, write_document
from furlkit.reports.document import result_line


def work_of(protocol: str) -> Any:
    """Import the module that computes the scores of a protocol, and torch."""
    return load(f"furlkit.stages.evaluate.work.{protocol}")


def write_scores(
    options: Any, found: dict[str, Any], scored: str, trained: bool = False
) -> Result:
    """Write scores; `scored` names the model."""
    document = write_document(options, found, trained)
    return result_line(options.output, document, scored), document
