"""Files of kinds that declare their tensors in `kinds.py`, shared by clients.

A kind that only has arrays, and the facts of every shared file, needs no module: the
declaration has the type and the dimensions of each tensor.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.clients import ClientId
from furlkit.files.container.header import with_article
from furlkit.files.container.read import Container, Readable, Tensors
from furlkit.files.container.write import write
from furlkit.files.facts import Provenance, Record, open_facts
from furlkit.files.kinds import FileKind, kind_of


@dataclass(frozen=True)
class SharedFacts:
    """Round and origin of a file: a `client`, or a combination of several `clients`.

    `parent`: content hash of the global model at the start of the clients' training.
    `run`: name of the run, inherited from the model.
    """

    round: int
    client: ClientId | None = None
    clients: int | None = None
    parent: str | None = None
    run: str | None = None


@dataclass(frozen=True)
class Shared(Record[SharedFacts]):
    """Tensors by name, and the sizes of the dimensions by letter."""

    tensors: Tensors
    sizes: dict[str, int]


def read_shared(file: Readable, kind: str) -> Shared:
    """Read and check a whole file."""
    opened, facts = open_upload(file, kind)
    return read_upload(opened, facts, opened.by, False)


def open_upload(file: Readable, kind: str) -> tuple[Container, SharedFacts]:
    """Open a file and check types and shapes, without reading tensors."""
    opened, facts = open_facts(file, kind, SharedFacts)
    _sizes(opened, kind_of(kind))
    return opened, facts


def read_upload(
    opened: Container, facts: SharedFacts, by: str, remember: bool
) -> Shared:
    """Read and check the tensors of an opened file; `by` is the hash to compare."""
    kind = kind_of(opened.header.kind)
    tensors = opened.verified_tensors(by, remember)
    _check(opened.path, kind, tensors)
    return Shared(opened.path, facts, opened.content, tensors, _sizes(opened, kind))


def write_result(
    path: Path,
    kind: str,
    tensors: Mapping[str, np.ndarray],
    facts: SharedFacts,
    provenance: Provenance,
) -> str:
    """Write tensors in the declared types; return the content hash."""
    declared = kind_of(kind)
    _check_names(path, declared, tensors, provenance)
    types = {name: form.split()[0] for name, form in declared.tensors.items()}
    stored = {name: array.astype(types[name]) for name, array in tensors.items()}
    _check(path, declared, stored)
    return write(path, stored, provenance.header(kind, facts))


def _check_names(
    path: Path, kind: FileKind, tensors: Mapping[str, Any], provenance: Provenance
) -> None:
    """Refuse other tensors than the declared ones, an error of a rule or an exchange."""
    if tensors.keys() != kind.tensors.keys():
        rule = provenance.options.get("rule")
        raise InputError(
            f"{path}: {f'--rule {rule}' if rule else provenance.stage} returned the "
            f"tensors {_listed(tensors)}; {with_article(kind.name)} file has "
            f"{_listed(kind.tensors)}; correct the package"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "(none)"


def _sizes(opened: Container, kind: FileKind) -> dict[str, int]:
    """Sizes by the letters of the declaration; a letter has one size in a file."""
    sizes: dict[str, int] = {}
    for name, form in kind.tensors.items():
        dtype, *letters = form.split()
        shape = opened.expect(name, dtype, *letters).shape
        for letter, size in zip(letters, shape, strict=True):
            if sizes.setdefault(letter, size) != size:
                raise InputError(
                    f"{opened.path}: {name} is {shape}, expected ({', '.join(letters)}) "
                    f"with {letter} = {sizes[letter]}; re-create it"
                )
    return sizes


def _check(path: Path, kind: FileKind, tensors: Mapping[str, np.ndarray]) -> None:
    for name in kind.tensors:
        check_finite(path, name, tensors[name])
    if kind.check:
        resolve_name(kind.check)(path, tensors)
