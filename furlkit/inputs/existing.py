"""Existing outputs: compare the recorded command with the current command."""

import os
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import FurlkitError
from furlkit.files.container.header import canonical, shortened
from furlkit.files.container.read import open_kind
from furlkit.files.facts import Provenance
from furlkit.files.metrics import is_sealed, read_metrics

ALREADY = "already there, made from the same inputs with the same options"


def made_before(
    options: Any, kind: str, provenance: Provenance, facts: Any
) -> str | None:
    """Return the content hash of an output made by this command; None: make the output.

    `facts`: facts known before the work. An output of another command is reported, and
    made again. An unchanged output gets the current time, because make compares times.
    """
    if options.force or options.dry_run:
        return None
    return content_of(options.output, kind, provenance, facts)


def content_of(path: Path, kind: str, provenance: Provenance, facts: Any) -> str | None:
    """Like `made_before` for a path, without regard to options."""
    if not path.exists():
        return None
    try:
        opened = open_kind(path, kind)
        opened.check_body()
    except FurlkitError as error:
        console.info(f"{error}; making it again")
        return None
    record = is_dataclass(facts) and not isinstance(facts, type)
    known = asdict(facts) if record else facts
    header = opened.header
    changes = [
        *_changes("--", header.options, provenance.options),
        *_changes("--", {"seed": header.seed}, {"seed": provenance.seed}),
        *_changes("the content of ", header.inputs, provenance.inputs),
    ]
    # Most facts follow from the options: facts matter only if options are equal.
    facts = {key: value for key, value in known.items() if value is not None}
    changes = changes or _changes("", header.facts, facts)
    return opened.content if _accepted(path, changes) else None


def already(path: Path, content: str) -> tuple[str, dict[str, Any]]:
    """Result of a command without work."""
    return f"{path}: {ALREADY}", {"content": content, "unchanged": True}


def scored_before(path: Path, known: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return metrics written by this command; `known`: entries known before scoring."""
    if not path.exists():
        return None
    try:
        document = read_metrics(path)
    except FurlkitError as error:
        console.info(f"{error}; making it again")
        return None
    if not is_sealed(document):
        console.info(f"{path}: has no content hash; making it again")
        return None
    found = document.get("options")
    options = found if isinstance(found, dict) else {}
    rest = {key: value for key, value in known.items() if key != "options"}
    changes = _changes("--", options, known["options"])
    changes = changes or _changes("", document, rest)
    return document if _accepted(path, changes) else None


def _accepted(path: Path, changes: list[str]) -> bool:
    if changes:
        console.info(f"{path}: making it again with {'; '.join(changes)}")
    else:
        os.utime(path)
    return not changes


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
            found.append(f"{before}{key} {_shown(now)}, was {_shown(was)}")
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
