"""evaluate: one module for each protocol, and the common end of the protocols."""

from typing import Any

from furlkit.catalogue import plugin_options
from furlkit.files.journal import Journal
from furlkit.files.metrics import write_metrics
from furlkit.inputs.existing import ALREADY, scored_before
from furlkit.inputs.settings import Computing
from furlkit.reports.document import result_line
from furlkit.reports.text import lookup
from furlkit.runtime import machine

Result = tuple[str, dict[str, Any]]


def found_before(options: Any, known: dict[str, Any]) -> dict[str, Any] | None:
    """Return the document of an earlier run; `known`: entries known in advance."""
    if options.force or options.dry_run:
        return None
    return scored_before(options.output, {**_origin(options, known), **known})


def scores_before(options: Any, document: dict[str, Any], scored: str) -> Result:
    """Result of a command with existing scores."""
    line = result_line(options.output, document, scored)
    return f"{line} ({ALREADY})", {**document, "unchanged": True}


def _origin(options: Any, known: dict[str, Any]) -> dict[str, Any]:
    seed = getattr(options, "seed", None)  # Some protocols draw no random numbers.
    encoder = lookup(known, "checkpoint.facts.architecture.encoder")
    plugin = plugin_options("furlkit.encoders", encoder)
    return {"options": {**options.resolved, **plugin}, "seed": seed}


def write_document(
    options: Any, found: dict[str, Any], trained: bool = False
) -> dict[str, Any]:
    """Write the result together with the options.

    The journal beside the output records the versions and the machine; if the protocol
    has `trained` the model, the journal already exists.
    """
    output = options.output
    document = write_metrics(output, {**_origin(options, found), **found})
    if isinstance(options, Computing) and not trained:
        journal = Journal(output)  # Last: a full disk must not leave only the journal.
        journal.rewind(0)
        journal.write({"event": "start", **machine()})
    return document


def write_scores(
    options: Any, found: dict[str, Any], scored: str, trained: bool = False
) -> Result:
    """Write scores; `scored` names the model."""
    document = write_document(options, found, trained)
    return result_line(options.output, document, scored), document
