"""Facts: the part of a header that later stages read; a dataclass for each kind."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from furlkit.errors import InputError
from furlkit.files.clients import check_clients
from furlkit.files.container.header import Header, check_types, short, with_article
from furlkit.files.container.read import Container, open_kind

T = TypeVar("T")
Known = dict[str, Any]


@dataclass(frozen=True)
class Provenance:
    """How a file was made: the stage, its resolved options, its seed, its inputs."""

    stage: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)

    def header(self, kind: str, facts: Any) -> Header:
        """The header of such a file; facts that are None are left out."""
        known = {k: v for k, v in vars(facts).items() if v is not None}
        return Header(kind, self.stage, self.options, self.seed, self.inputs, known)


@dataclass(frozen=True)
class Record(Generic[T]):
    """What every reader gives; `content` is the content hash, which names the file."""

    path: Path
    facts: T
    content: str


def open_facts(
    path: Path, kind: str, make: type[T], updated: Callable[[Known], Known] = dict
) -> tuple[Container, T]:
    """Open a file of one kind and check its facts; the tensors are not read yet.

    `updated` gives the facts of a file of version 1 their present form.
    """
    opened = open_kind(path, kind)
    known = dict(opened.header.facts)
    try:
        facts = make(**(updated(known) if opened.header.version == 1 else known))
    except TypeError as error:
        raise InputError(
            f"{path}: its facts do not fit {with_article(kind)} file: {error}"
        ) from error
    check_types(path, facts, "fact")
    check_clients(path, facts)
    return opened, facts


def check_fingerprint(path: Path, fingerprint: dict[str, Any]) -> None:
    """A dataset's fingerprint has a count of examples, and hashes that may be unknown."""
    examples = fingerprint.get("examples")
    if type(examples) is not int or examples < 0:
        raise InputError(
            f"{path}: does not say how many images its dataset has; re-create it"
        )
    for name, value in fingerprint.items():
        if name != "examples" and not isinstance(value, str | None):
            raise InputError(
                f"{path}: the hash of its dataset's {short(name)} is {short(value)}; "
                "re-create it"
            )
