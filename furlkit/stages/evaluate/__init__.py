"""evaluate: one module for each protocol, and how each of them ends."""

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
    """The document that the same command wrote; `known` is what is known in advance."""
    if options.force or options.dry_run:
        return None
    return scored_before(options.output, {**_origin(options, known), **known})


def scores_before(options: Any, document: dict[str, Any], scored: str) -> Result:
    """The result of a command whose scores are there already."""
    line = result_line(options.output, document, scored)
    return f"{line} ({ALREADY})", {**document, "unchanged": True}


def _origin(options: Any, known: dict[str, Any]) -> dict[str, Any]:
    seed = getattr(options, "seed", None)  # Not every protocol draws something.
    encoder = lookup(known, "checkpoint.facts.architecture.encoder")
    plugin = plugin_options("furlkit.encoders", encoder)
    return {"options": {**options.resolved, **plugin}, "seed": seed}


def write_document(
    options: Any, found: dict[str, Any], trained: bool = False
) -> dict[str, Any]:
    """Write what was found, with the options that it depends on.

    The journal beside it has the versions and the machine; a protocol that has `trained`
    the model has written them already.
    """
    output = options.output
    document = write_metrics(output, {**_origin(options, found), **found})
    if isinstance(options, Computing) and not trained:
        journal = Journal(output)  # Last: a full disk must not leave it alone.
        journal.rewind(0)
        journal.write({"event": "start", **machine()})
    return document


def write_scores(
    options: Any, found: dict[str, Any], scored: str, trained: bool = False
) -> Result:
    """Write scores; `scored` says which model they are of."""
    document = write_document(options, found, trained)
    return result_line(options.output, document, scored), document
