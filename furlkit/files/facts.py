"""Facts: the part of a header read by later stages; one dataclass per kind of file."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from furlkit.errors import InputError
from furlkit.files.clients import check_clients
from furlkit.files.container.header import Header, check_types, short, with_article
from furlkit.files.container.read import Container, Readable, open_kind
from furlkit.files.kinds import kind_of
from furlkit.files.published import Withheld

T = TypeVar("T")
Known = dict[str, Any]


@dataclass(frozen=True)
class Provenance:
    """Stage, resolved options, seed and inputs that produced a file.

    `withheld`: entries that headers of files for other organisations leave out.
    """

    stage: str
    options: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    inputs: dict[str, str] = field(default_factory=dict)
    withheld: Withheld | None = None

    @property
    def secret(self) -> str | None:
        """Fingerprint of the site's secret, for files that stay at the site."""
        return self.withheld.secret if self.withheld else None

    def published(self, kind: str) -> Withheld | None:
        """Entries that a file of this kind leaves out; None if the file stays."""
        return None if kind_of(kind).stays else self.withheld

    def header(self, kind: str, facts: Any) -> Header:
        """Return a header of this kind; facts with the value None are omitted."""
        known = {k: v for k, v in vars(facts).items() if v is not None}
        whole = Header(kind, self.stage, self.options, self.seed, self.inputs, known)
        withheld = self.published(kind)
        return withheld.reduce(whole) if withheld else whole


@dataclass(frozen=True)
class Record(Generic[T]):
    """Result of every reader; `content`: the content hash, which names the file."""

    path: Path
    facts: T
    content: str


def open_facts(
    file: Readable, kind: str, make: type[T], updated: Callable[[Known], Known] = dict
) -> tuple[Container, T]:
    """Open a file of one kind and check the facts, without reading tensors.

    `updated` converts the facts of version 1 to the current form.
    """
    opened = open_kind(file, kind)
    path, known = opened.path, dict(opened.header.facts)
    try:
        facts = make(**(updated(known) if opened.header.version == 1 else known))
    except TypeError as error:
        raise InputError(
            f"{path}: facts do not fit {with_article(kind)} file: {error}"
        ) from error
    check_types(path, facts, "fact")
    check_clients(path, facts)
    return opened, facts


def check_fingerprint(path: Path, fingerprint: dict[str, Any]) -> None:
    """Check a dataset's fingerprint: a count of examples, and hashes or None."""
    examples = fingerprint.get("examples")
    if type(examples) is not int or examples < 0:
        raise InputError(
            f"{path}: does not say how many images the dataset has; re-create it"
        )
    for name, value in fingerprint.items():
        if name != "examples" and not isinstance(value, str | None):
            raise InputError(
                f"{path}: the hash of the dataset's {short(name)} is {short(value)}; "
                "re-create it"
            )
