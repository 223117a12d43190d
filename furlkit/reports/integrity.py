"""Content hashes of all files below a folder."""

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.catalogue import COMMANDS, kinds_of
from furlkit.errors import InputError
from furlkit.files.clients import client_of
from furlkit.files.container.header import Header, canonical
from furlkit.files.container.read import Container, ForeignError
from furlkit.files.metrics import as_metrics, is_sealed, read_json
from furlkit.files.receipts import run_folder
from furlkit.reports.conditions import stale_files
from furlkit.reports.text import counted, plain

UNSEALED = "metrics without a content hash"
OTHER = "other"


class _Verified(NamedTuple):
    """A verified file: kind, and header or metrics; None for other files."""

    kind: str
    header: Header | None = None
    metrics: dict[str, Any] | None = None


def verify_below(folder: Path) -> tuple[str, dict[str, Any]]:
    """Compare every furlkit file with its content hash; count foreign files.

    The recorded inputs of files are compared with the files in their places.
    """
    kinds: Counter[str] = Counter()
    broken: list[InputError] = []
    headers: list[tuple[Path, Header]] = []
    scores: list[tuple[Path, dict[str, Any]]] = []
    for path in _files(folder):
        try:
            found = _verified(path)
        except InputError as error:
            broken.append(error)
            continue
        kinds[found.kind] += 1
        if found.header:
            headers.append((path, found.header))
        if found.metrics:
            scores.append((path, found.metrics))
    broken += map(InputError, _misfits(headers))
    for path in stale_files(scores):
        text = "has the score of a model that was replaced; evaluate again"
        broken.append(InputError(f"{path}: {text}"))
    raise_all(broken, f"{folder}: {len(broken)} files below are broken or do not fit")
    if not kinds.keys() - {OTHER}:
        raise InputError(f"{folder}: is a folder without furlkit files")
    return _told(folder, kinds)


def raise_all(errors: Sequence[InputError], summary: str) -> None:
    """Raise a single error, or print several errors and raise the summary."""
    if len(errors) == 1:
        raise errors[0]
    if errors:
        for each in errors:
            console.error(str(each))
        raise InputError(f"{summary}; see above")


def _misfits(headers: Sequence[tuple[Path, Header]]) -> Iterator[str]:
    """Describe files with another file in the place of a recorded input.

    Inputs may be elsewhere or removed; another file of the run with the client and the
    round of the input was exchanged, or made again.
    """
    contents = {header.content for _, header in headers}
    places: dict[tuple[str, ...], list[tuple[Path, Header]]] = {}
    for path, header in headers:
        place = _place(path, header.facts.get("client"), header.facts.get("round"))
        places.setdefault(place, []).append((path, header))
    for path, header in headers:
        for role, content in header.inputs.items():
            if content in contents or header.stage not in COMMANDS:
                continue
            kinds = kinds_of(header.stage, role)
            for other, theirs in places.get(_place_of(path, header, role), ()):
                if theirs.kind in kinds and theirs.stage != header.stage:
                    yield (
                        f"{path}: was made from {role} {content:.12}, but {other} in its "
                        f"place has the content {theirs.content:.12}; either file was "
                        "exchanged or made again"
                    )


def _place_of(path: Path, header: Header, role: str) -> tuple[str, ...]:
    """Place of an input: of an upload, or of the model that a client received."""
    name, _, client = role.partition(" ")
    round_ = header.facts.get("round")
    if name == "client" and header.stage == "aggregate":
        return _place(path, client_of(client), round_)
    if name == "global" and type(round_) is int:
        return _place(path, None, round_ - 1)
    return ()


def _place(path: Path, client: Any, round_: Any) -> tuple[str, ...]:
    """Planned run of a file, or the file's folder, with client and round."""
    home = run_folder(str(path)) or str(path.parent)
    return home, canonical(client), canonical(round_)


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


def _verified(path: Path) -> _Verified:
    if path.suffix == ".json":
        document = read_json(path)
        if not isinstance(document, dict) or document.get("kind") != "metrics":
            return _Verified(OTHER)
        metrics = as_metrics(path, document)
        return _Verified("metrics" if is_sealed(metrics) else UNSEALED, None, metrics)
    try:
        opened = Container(path)
    except ForeignError:
        return _Verified(OTHER)
    except InputError:
        if path.suffix == ".safetensors":
            raise
        return _Verified(OTHER)
    opened.verify()
    return _Verified(opened.header.kind, opened.header)
