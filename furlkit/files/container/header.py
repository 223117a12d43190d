"""Metadata of every furlkit file: the kind, the facts and the provenance."""

import json
import math
import re
from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from furlkit.errors import InputError
from furlkit.files.container.seal import UNSEALED
from furlkit.files.kinds import is_kind

VERSION = 2
# A ResNet-50's header takes 40 kB. The limit makes hostile headers cheap to refuse.
LIMIT = 4 * 2**20
DEEPEST = 64
MOST_LISTS = 10**6  # Each takes 60 times the two bytes of its brackets in memory.


@dataclass(frozen=True)
class Header:
    """Value of the metadata key `furlkit`: JSON with sorted keys.

    `inputs` maps a role to the content hash of a file; `facts` are for later stages.
    `content` is the sha256 of the file and names the file; `check` is the checksum that
    every reader compares (see `seal`).
    """

    kind: str
    stage: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    version: int = VERSION
    content: str = UNSEALED
    check: str = UNSEALED

    def to_json(self) -> str:
        """Return the canonical text: sorted keys, no spaces, no NaN."""
        return canonical({entry.name: getattr(self, entry.name) for entry in _ENTRIES})

    def unsealed(self) -> "Header":
        """Return the header without content hash and checksum."""
        return replace(self, content=UNSEALED, check=UNSEALED)


_ENTRIES = fields(Header)


@dataclass(frozen=True, kw_only=True)
class PublishedHeader(Header):
    """Header without entries that stay with the writer of the file.

    `full` is the whole header, for the file `record`; None is a file beside the output.
    `kept` are further facts for the record.
    """

    full: Header
    record: Path | None = None
    kept: dict[str, Any] = field(default_factory=dict)


def canonical(value: Any) -> str:
    """Return JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_strict(text: str | bytes) -> Any:
    """Parse JSON more strictly than Python: duplicate keys, NaN, 1e999 are errors."""
    raw = text.encode() if isinstance(text, str) else text
    if (brackets := raw.count(b"[") + raw.count(b"{")) > MOST_LISTS:
        raise ValueError(f"more than {MOST_LISTS:,} lists and objects")
    value = _STRICT.decode(raw.decode(json.detect_encoding(raw), "surrogatepass"))
    if brackets > DEEPEST:
        check_depth(value)
    return value


def check_depth(value: Any, levels: int = DEEPEST) -> None:
    """Check the depth of nested lists, which could exhaust the stack."""
    if not isinstance(value, dict | list):
        return
    if not levels:
        raise ValueError(f"nested more than {DEEPEST} levels deep")
    for inner in value.values() if isinstance(value, dict) else value:
        check_depth(inner, levels - 1)


def parse_header(path: Path, text: str) -> Header:
    """Read and check the text under the metadata key `furlkit`."""
    try:
        value = parse_strict(text)
        if not isinstance(value, dict):
            raise ValueError("not a JSON object")
        # First of all: a newer version may have entries unknown to this version.
        check_version(path, value.get("version", VERSION))
        header = Header(**value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: the furlkit header is broken: {error}") from error
    if not is_kind(header.kind):
        raise InputError(f"{path}: is of the unknown kind {short(header.kind)}")
    check_types(path, header, "entry")
    for digits, name in ((header.content, "content hash"), (header.check, "checksum")):
        if not re.fullmatch("[0-9a-f]{64}", digits):
            raise InputError(f"{path}: the header has no readable {name}")
    return header


def check_version(path: Path, version: Any, newest: int = VERSION) -> None:
    """Accept older versions; refuse newer versions and invalid values."""
    if type(version) is not int or version < 1:
        raise InputError(f"{path}: the format version is {short(version)}")
    if version > newest:
        raise InputError(
            f"{path}: written in format version {short(version)}, this furlkit reads "
            f"up to {newest}; install a newer furlkit"
        )


def check_types(path: Path, record: Any, what: str) -> None:
    """Check the values of a dataclass, read from JSON, against the declared types."""
    for name, kind in _types_of(record.__class__).items():
        value = getattr(record, name)
        if not _fits(value, kind):
            expected = kind.__name__ if type(kind) is type else str(kind)
            raise InputError(
                f"{path}: header {what} {name!r} is {short(value)}; expected {expected}"
            )


@cache
def _types_of(record: type) -> dict[str, Any]:
    """Declared types of a dataclass; evaluating annotations takes longer than a check."""
    return get_type_hints(record)


@cache
def _parts_of(kind: Any) -> tuple[Any, tuple[Any, ...]]:
    """Origin and arguments of a type: list and int of list[int]."""
    return get_origin(kind), get_args(kind)


def _fits(value: Any, kind: Any) -> bool:
    """Return whether a value has an annotated type; a whole number must be a count."""
    if type(value) is kind and kind is not int:
        return True
    origin, inner = _parts_of(kind)
    if origin is list:
        return isinstance(value, list) and all(_fits(v, inner[0]) for v in value)
    if origin is dict:
        return isinstance(value, dict)
    if inner:
        return any(_fits(value, choice) for choice in inner)
    if kind is int:
        return type(value) is int and value >= 0
    return type(value) is kind or (kind is float and type(value) is int)


def with_article(noun: str) -> str:
    """Put the article before a kind of file or model: a checkpoint, an ensemble."""
    return f"{'an' if noun[:1] in tuple('aeiou') else 'a'} {noun}"


def short(value: Any) -> str:
    """Format a value from a file for a message, cut to 60 characters."""
    return shortened(repr(value))


def shortened(text: str) -> str:
    """Cut a text to 60 characters."""
    return text if len(text) <= 60 else text[:57] + "..."


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = counts.most_common(1)[0][0]
        raise ValueError(f"the key {short(twice)} occurs twice")
    return result


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{short(digits)} is not a finite number")
    return number


_STRICT = json.JSONDecoder(
    object_pairs_hook=_no_duplicates, parse_constant=_finite, parse_float=_finite
)
