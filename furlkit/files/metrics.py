"""Metrics files: JSON with sorted keys, for programs, `plot`, and people.

`content` is the sha256 of the remaining document: the numbers, the options, and the
hashes of images and models. The CPU time of an audit, `cpu_seconds`, differs between equal
runs and is not part of the hash. Versions before 3 have no content hash.
"""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.container.header import (
    canonical,
    check_version,
    parse_strict,
    with_article,
)
from furlkit.files.container.read import Container
from furlkit.files.opening import LONGEST_JSON, read_bytes

VERSION = 3
UNSEALED = ("content", "cpu_seconds")


def write_metrics(path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """Write the result of an evaluation; return the document with the content hash."""
    document = {**values, "kind": "metrics", "version": VERSION}
    # The form that readers get: keys are text, numbers that are not finite are null.
    document = json.loads(json.dumps(document), parse_constant=lambda _: None)
    document["content"] = _content(document)
    text = json.dumps(document, sort_keys=True, indent=1)
    write_bytes(path, text.encode() + b"\n")
    return document


def read_metrics(path: Path) -> dict[str, Any]:
    """Read the result of an evaluation."""
    return as_metrics(path, read_json(path, "a metrics file"))


def read_json(path: Path, expected: str = "JSON") -> Any:
    """Read a JSON file of any content; `expected` names the content in messages."""
    try:
        return parse_strict(read_bytes(path, LONGEST_JSON))
    except (ValueError, RecursionError) as error:
        if kind := _kind_of(path):
            raise InputError(
                f"{path}: is {with_article(kind)} file, expected {expected} (.json)"
            ) from error
        raise InputError(f"{path}: is not {expected}: {error}") from error


def _kind_of(path: Path) -> str | None:
    """Kind of a file of furlkit with tensors; None for any other file."""
    try:
        return Container(path).header.kind
    except InputError:
        return None


def as_metrics(path: Path, document: Any) -> dict[str, Any]:
    """Check that a JSON document was written by `write_metrics`."""
    if not isinstance(document, dict) or document.get("kind") != "metrics":
        raise InputError(f"{path}: is JSON, but not a metrics file of furlkit's")
    check_version(path, document.get("version"), VERSION)
    if is_sealed(document) and document.get("content") != (found := _content(document)):
        raise InputError(
            f"{path}: was changed after furlkit wrote it: the values have the content "
            f"hash {found:.12}, expected {document.get('content')!s:.12}; restore the "
            "file, or repeat the command that wrote it"
        )
    return document


def is_sealed(document: dict[str, Any]) -> bool:
    """Return whether a metrics file must have a content hash (version 3)."""
    return "content" in document or document.get("version") == VERSION


def _content(document: dict[str, Any]) -> str:
    values = {key: value for key, value in document.items() if key not in UNSEALED}
    return sha256(canonical(values).encode()).hexdigest()
