"""evaluate: one module for each protocol, and the common end of the protocols."""

from typing import Any

from furlkit.inputs.documents import Result, write_document
from furlkit.inputs.existing import ALREADY
from furlkit.reports.document import result_line


def scores_before(options: Any, document: dict[str, Any], scored: str) -> Result:
    """Result of a command with existing scores."""
    line = result_line(options.output, document, scored)
    return f"{line} ({ALREADY})", {**document, "unchanged": True}


def write_scores(
    options: Any, found: dict[str, Any], scored: str, trained: bool = False
) -> Result:
    """Write scores; `scored` names the model."""
    document = write_document(options, found, trained)
    return result_line(options.output, document, scored), document
