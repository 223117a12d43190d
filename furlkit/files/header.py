"""The metadata every furlkit file carries: what it is and what it was made from."""

import json
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from furlkit.errors import InputError

VERSION = 1
UNSEALED = "0" * 64
KINDS = (
    "checkpoint",
    "dataset",
    "encoder",
    "features",
    "partition",
    "private",
    "progress",
    "similarity",
)


@dataclass(frozen=True)
class Header:
    """What stands under the metadata key `furlkit`, as JSON with sorted keys.

    `inputs` maps a role to the content hash of the file that played it; `facts` is what
    a later stage needs to know; `content` is the hash of the file itself.
    """

    kind: str
    stage: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    version: int = VERSION
    content: str = UNSEALED

    def to_json(self) -> str:
        """The canonical text: sorted keys, no spaces, no NaN."""
        return canonical(asdict(self))

    def unsealed(self) -> "Header":
        """The same header before its content hash was known."""
        return replace(self, content=UNSEALED)


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal bytes."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def parse_strict(text: str | bytes) -> Any:
    """JSON without the liberties Python takes: duplicate keys and NaN are errors."""
    return json.loads(
        text, object_pairs_hook=_no_duplicates, parse_constant=_no_constant
    )


def parse_header(path: Path, text: str) -> Header:
    """Read and check the text under the metadata key `furlkit`."""
    try:
        value = parse_strict(text)
        header = Header(**value)
    except (ValueError, TypeError, RecursionError) as error:
        raise InputError(f"{path}: its furlkit header is broken: {error}") from error
    _check_types(path, header)
    return header


def _check_types(path: Path, header: Header) -> None:
    if not isinstance(header.version, int) or header.version < 1:
        raise InputError(f"{path}: its format version is {header.version!r}")
    if header.version > VERSION:
        raise InputError(
            f"{path}: written in format version {header.version}, this furlkit reads "
            f"up to {VERSION}; install a newer furlkit"
        )
    if header.kind not in KINDS:
        raise InputError(f"{path}: is of the unknown kind {header.kind!r}")
    wanted = {"stage": str, "options": dict, "inputs": dict, "facts": dict}
    wanted["content"] = str
    for name, kind in wanted.items():
        if not isinstance(getattr(header, name), kind):
            raise InputError(f"{path}: header entry {name!r} is not a {kind.__name__}")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = counts.most_common(1)[0][0]
        raise ValueError(f"the key {twice!r} stands twice")
    return result


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")
