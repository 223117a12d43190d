"""Existing outputs: compare the recorded command with the current command."""

import os
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.header import Header, canonical, shortened
from furlkit.files.container.read import open_kind
from furlkit.files.facts import Provenance
from furlkit.files.journal import Journal
from furlkit.files.metrics import is_sealed, read_metrics
from furlkit.files.replaceable import check_same_output
from furlkit.inputs.records import check_record

ALREADY = "already there, made from the same inputs with the same options"


class Output(NamedTuple):
    """An output of a command; `facts` are known before the work.

    A document of scores has the kind "metrics", and the facts are entries.
    """

    path: Path
    kind: str
    provenance: Provenance
    facts: Any


class Existing(NamedTuple):
    """An existing output: content hash, and recorded facts or entries of a document."""

    content: str
    facts: dict[str, Any]


def unchanged(options: Any, *outputs: Output) -> list[Existing] | None:
    """Return the outputs, if an earlier run of this command wrote them all; or None.

    Changed options or inputs are reported. An output of another client or round, and a
    record that this command may not replace, is an error. Unchanged outputs get the
    current time, because make compares times.
    """
    for output in outputs:
        check_record(output.path, output.kind, output.provenance)
        if not options.force:
            check_same_output(output.path, "-o", output.kind, _facts(output))
    if options.force or getattr(options, "dry_run", False):
        return None
    existing = []
    for output in outputs:
        found = _same(output) if output.path.exists() else None
        if found is None:
            return None
        existing.append(found)
    for output in outputs:
        os.utime(output.path)
    return existing


def existing_result(
    options: Any, kind: str, provenance: Provenance, facts: Any, data: dict[str, Any]
) -> tuple[str, dict[str, Any]] | None:
    """Result of a command with a single output, if the output is unchanged; or None.

    `data`: entries of the result that are known before the work.
    """
    existing = unchanged(options, Output(options.output, kind, provenance, facts))
    if existing is None:
        return None
    trained = earlier_result(options.output, existing[0].content)
    return already(options.output, {**data, **trained})


def earlier_result(output: Path, content: str) -> dict[str, Any]:
    """Entries of the result of the work that wrote an output; repeats the warnings."""
    result = Journal(output).result(content)
    for warning in result.pop("warnings", ()):
        console.warn(str(warning))
    return {**result, "content": content}


def already(subject: Path | str, data: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Result of a command without work; `subject`: path of the output, or a line."""
    is_path = isinstance(subject, Path)
    line = f"{subject}: {ALREADY}" if is_path else f"{subject} ({ALREADY})"
    return line, {**data, "unchanged": True}


def _same(output: Output) -> Existing | None:
    """Return the output, unless inputs, options or known facts differ."""
    try:
        header = _document(output) if output.kind == "metrics" else _header(output)
    except FurlkitError as error:
        console.info(f"{error}; making it again")
        return None
    known, how = _facts(output), output.provenance
    changes = [
        *_changes("--", header.options, how.options),
        *_changes("--", {"seed": header.seed}, {"seed": how.seed}),
        *_changes("the content of ", header.inputs, how.inputs),
    ]
    if output.kind != "metrics":  # The work adds the other facts to a header.
        known = {key: value for key, value in known.items() if value is not None}
    # Most facts follow from the options: facts matter only if options are equal.
    changes = changes or _changes("", header.facts, known)
    if changes:
        console.info(f"{output.path}: making it again with {'; '.join(changes)}")
        return None
    return Existing(header.content, header.facts)


def _facts(output: Output) -> Mapping[str, Any]:
    facts = output.facts
    return facts if isinstance(facts, Mapping) else asdict(facts)


def _header(output: Output) -> Header:
    opened = open_kind(output.path, output.kind)
    opened.check_body()
    withheld = output.provenance.published(output.kind)
    if withheld is None:
        return opened.header
    return withheld.full_header(output.path, opened.header)


def _document(output: Output) -> Header:
    """Header of a document; a document names the inputs among the entries."""
    document = read_metrics(output.path)
    if not is_sealed(document):
        raise InputError(f"{output.path}: has no content hash")
    options, stage = document.get("options"), output.provenance.stage
    return Header(
        "metrics", stage, options if isinstance(options, dict) else {},
        document.get("seed"), facts=document, content=document["content"],
    )  # fmt: skip


def _changes(prefix: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Describe changed values by name; unknown facts of `old` are skipped.

    Nested tables are compared value by value.
    """
    keys = [*new, *(old.keys() - new.keys() if prefix else ())]
    found: list[str] = []
    for key in sorted(keys):
        was, now = old.get(key), new.get(key)
        if canonical(was) == canonical(now):
            continue
        if isinstance(was, dict) and isinstance(now, dict):
            found += _changes(f"{prefix}{key}.", was, now)
        else:
            # A plugin is not an option, but options record the plugin used.
            before = "" if key.startswith("plugin ") else prefix
            shown, old_shown = _shown(now), _shown(was)
            differs = shown != old_shown  # The beginnings of long texts may be equal.
            text = f"{before}{key} {shown}, was {old_shown}"
            found.append(text if differs else f"another {before}{key}")
    return found


def _shown(value: Any) -> str:
    """Format a value for the command line."""
    match value:
        case None:
            return "not given"
        case bool():
            return "on" if value else "off"
        case int() | float():
            return f"{value:.12g}"
        case list():
            return shortened(",".join(map(_shown, value)))
    return shortened(str(value))
