"""Metrics files: JSON with sorted keys, for programs, `plot`, and people."""

import json
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import VERSION, check_version, parse_strict
from furlkit.files.opening import LONGEST_JSON, read_bytes


def write_metrics(path: Path, values: dict[str, Any]) -> None:
    """Write the result of an evaluation."""
    document = {**values, "kind": "metrics", "version": VERSION}
    text = json.dumps(document, sort_keys=True, indent=1, allow_nan=False)
    write_bytes(path, text.encode() + b"\n")


def read_metrics(path: Path) -> dict[str, Any]:
    """Read the result of an evaluation."""
    return as_metrics(path, read_json(path, "a metrics file"))


def read_json(path: Path, expected: str = "JSON") -> Any:
    """A JSON file of any content; `expected` is what a message says of it."""
    try:
        return parse_strict(read_bytes(path, LONGEST_JSON))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: is not {expected}: {error}") from error


def as_metrics(path: Path, document: Any) -> dict[str, Any]:
    """Check that a JSON document is one of `write_metrics`."""
    if not isinstance(document, dict) or document.get("kind") != "metrics":
        raise InputError(f"{path}: is JSON, but not a metrics file of furlkit's")
    check_version(path, document.get("version"))
    return document
