"""What clients sent: in client order, each client once, all of one round."""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

from furlkit.catalogue import RULES, divided, recorded
from furlkit.errors import InputError, TooEarlyError
from furlkit.files.clients import client_order
from furlkit.files.facts import Provenance
from furlkit.inputs.paths import check_output
from furlkit.inputs.settings import fill

_TRAIN_AGAIN = "train that client again from the current global model"
# Facts that uploads of one round share, and what to do if they do not.
ROUND = {"round": _TRAIN_AGAIN, "parent": _TRAIN_AGAIN}


@dataclass(frozen=True)
class Options:
    """Which uploads are combined, and how; `settings` are the rule's own options."""

    inputs: tuple[Path, ...]
    output: Path
    rule: str
    settings: dict[str, Any]
    min_clients: int
    dry_run: bool
    force: bool
    recorded: dict[str, Any]


class Upload(Protocol):
    """A file of a client."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    @property
    def facts(self) -> Any:
        """What its header says, the client among it."""

    @property
    def content(self) -> str:
        """Its content hash."""


U = TypeVar("U", bound=Upload)


def open_uploads(
    values: Mapping[str, Any],
    read: Callable[[Path], U],
    check_together: Callable[[list[U]], None],
) -> tuple[Options, list[U]]:
    """Read and check all uploads of a command, each alone and then together."""
    settings, rest = divided(values, RULES[values["rule"]].options)
    known = {"settings": settings, "recorded": recorded("aggregate", values)}
    options = fill(Options, {**rest, **known})
    check_output(options.output, options.inputs)
    clients = in_client_order(map(read, options.inputs))
    check_together(clients)
    if len(clients) < options.min_clients:
        # This is no failure: more clients may report later.
        raise TooEarlyError(
            f"{len(clients)} clients have reported, --min-clients asks for "
            f"{options.min_clients}; run the same command again when more are there"
        )
    return options, clients


def provenance_of(
    options: Options, clients: Sequence[Upload], **resolved: Any
) -> Provenance:
    """How the result is made; `resolved` are options that the inputs decide."""
    contents = {f"client {c.facts.client}": c.content for c in clients}
    return Provenance("aggregate", {**options.recorded, **resolved}, None, contents)


def in_client_order(uploads: Iterable[U]) -> list[U]:
    """The same file twice is one; two different files of a client are refused."""
    once: dict[str, U] = {}
    for upload in uploads:
        once.setdefault(upload.content, upload)
    ordered = sorted(once.values(), key=lambda u: client_order(u.facts.client))
    for one, other in pairwise(ordered):
        if one.facts.client == other.facts.client:
            raise InputError(
                f"{one.path} and {other.path}: are both of client {one.facts.client} "
                "and differ; leave one of them out"
            )
    return ordered


def usual(uploads: Sequence[U], values: Sequence[Hashable]) -> U:
    """The first upload that has the most frequent value: the majority is right."""
    return uploads[values.index(Counter(values).most_common(1)[0][0])]


def check_same(
    uploads: Sequence[Upload], what: str, values: Sequence[Hashable], cure: str
) -> None:
    """Refuse the upload that differs: one stale client, or one with another net."""
    common = Counter(values).most_common(1)[0][0]
    for upload, value in zip(uploads, values, strict=True):
        if value != common:
            raise InputError(
                f"{upload.path}: its {what} is {value}, the others have {common}; {cure}"
            )


def check_same_facts(uploads: Sequence[Upload], cures: Mapping[str, str]) -> None:
    """All uploads have the same value of each of these facts."""
    for name, cure in cures.items():
        values = [getattr(upload.facts, name) for upload in uploads]
        check_same(uploads, name, values, cure)
