"""Content hashes of all files below a folder."""

import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.errors import InputError
from furlkit.files.container.read import Container, ForeignError
from furlkit.files.metrics import as_metrics, is_sealed, read_json
from furlkit.reports.text import counted, plain

UNSEALED = "metrics without a content hash"
OTHER = "other"


def verify_below(folder: Path) -> tuple[str, dict[str, Any]]:
    """Compare every furlkit file with its content hash; count foreign files."""
    kinds: Counter[str] = Counter()
    broken: list[InputError] = []
    for path in _files(folder):
        try:
            kinds[_verified_kind(path)] += 1
        except InputError as error:
            broken.append(error)
    if len(broken) == 1:
        raise broken[0]
    if broken:
        for each in broken:
            console.error(str(each))
        raise InputError(f"{folder}: {len(broken)} files below are broken; see above")
    if not kinds.keys() - {OTHER}:
        raise InputError(f"{folder}: is a folder without furlkit files")
    return _told(folder, kinds)


def _told(folder: Path, kinds: Counter[str]) -> tuple[str, dict[str, Any]]:
    unsealed, other = kinds.pop(UNSEALED, 0), kinds.pop(OTHER, 0)
    if unsealed:
        console.warn(
            f"{folder}: {counted(unsealed, 'metrics file')} of an older furlkit without "
            "a content hash; evaluate again to seal the numbers"
        )
    each = ", ".join(f"{count:,} {kind}" for kind, count in sorted(kinds.items()))
    text = (
        f"{plain(str(folder))}: {counted(kinds.total(), 'file')} verified"
        f"{each and f' ({each})'}, {other:,} without a content hash"
    )
    data = {"path": str(folder), "verified": dict(kinds)}
    return text, {**data, "unsealed": unsealed, "other": other}


def _files(folder: Path) -> Iterator[Path]:
    """Regular files in a fixed order, without hidden files and hidden folders."""
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        paths = (Path(place, n) for n in sorted(names) if not n.startswith("."))
        yield from (path for path in paths if path.is_file())


def _verified_kind(path: Path) -> str:
    if path.suffix == ".json":
        document = read_json(path)
        if not isinstance(document, dict) or document.get("kind") != "metrics":
            return OTHER
        return "metrics" if is_sealed(as_metrics(path, document)) else UNSEALED
    try:
        opened = Container(path)
    except ForeignError:
        return OTHER
    except InputError:
        if path.suffix == ".safetensors":
            raise
        return OTHER
    opened.verify()
    return opened.header.kind
