"""Metrics of evaluate and audit: earlier results, and writing with options and journal."""

from collections.abc import Sequence
from typing import Any

from furlkit.catalogue import plugin_options
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.metrics import write_metrics
from furlkit.inputs.existing import Output, earlier_result, unchanged
from furlkit.inputs.settings import Computing
from furlkit.runtime import machine

Result = tuple[str, dict[str, Any]]


def existing_scores(options: Any, known: dict[str, Any]) -> dict[str, Any] | None:
    """Return the document of an earlier run; `known`: entries known in advance."""
    how = Provenance("evaluate", **_origin(options, known))
    output = Output(options.output, "metrics", how, known)
    existing = unchanged(options, output)
    if existing is None:
        if isinstance(options, Computing):
            Journal(output.path).check_replaceable()  # Before the work.
        return None
    earlier_result(options.output, existing[0].content)
    return existing[0].facts


def _origin(options: Any, known: dict[str, Any]) -> dict[str, Any]:
    seed = getattr(options, "seed", None)  # Some protocols draw no random numbers.
    plugin = plugin_options("furlkit.encoders", _encoder(known))
    return {"options": {**options.resolved, **plugin}, "seed": seed}


def _encoder(known: dict[str, Any]) -> Any:
    found: Any = known
    for key in ("checkpoint", "facts", "architecture", "encoder"):
        found = found.get(key) if isinstance(found, dict) else None
    return found


def write_document(
    options: Any,
    found: dict[str, Any],
    trained: bool = False,
    warnings: Sequence[str] = (),
) -> dict[str, Any]:
    """Write the result together with the options.

    The journal beside the output records the versions, the machine and the `warnings` of
    the work; if the protocol has `trained` the model, the journal already exists.
    """
    output = options.output
    document = write_metrics(output, {**_origin(options, found), **found})
    if isinstance(options, Computing) and not trained:
        journal = Journal(output)  # Last: a full disk must not leave only the journal.
        journal.rewind(0)
        journal.write({"event": "start", **machine()})
        if warnings:
            journal.note_result({"content": document["content"]}, warnings)
    return document
