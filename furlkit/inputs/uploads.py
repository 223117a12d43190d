"""What clients sent: in client order, each client once, all of one round.

Files that are named are wrong if one of them is. In a folder, the server's inbox, what
does not fit is left out: see `inbox`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from furlkit.catalogue import RULES, divided, recorded
from furlkit.errors import InputError, TooEarlyError
from furlkit.files.clients import ClientId, client_order
from furlkit.files.facts import Provenance
from furlkit.files.opening import same_bytes
from furlkit.inputs.settings import fill

_TRAIN_AGAIN = "train that client again from the current global model"
# Facts that uploads of one round share, and what to do if they do not.
ROUND = {"round": _TRAIN_AGAIN, "parent": _TRAIN_AGAIN}


@dataclass(frozen=True)
class Options:
    """Which uploads are combined, and how; `settings` are the rule's own options.

    `inputs` are files and folders; `parent` is the global model that the round starts
    from. With `wait` the folders are looked at until there are `expect` uploads.
    """

    inputs: tuple[Path, ...]
    output: Path
    rule: str
    settings: dict[str, Any]
    parent: Path | None
    at_least: int
    expect: int | None
    wait: str | None
    trust_headers: bool
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


class UnfitUpload(InputError):
    """Uploads, each good alone, of which these do not fit the others."""

    def __init__(self, message: str, *paths: Path):
        super().__init__(message)
        self.paths = paths


def options_of(values: Mapping[str, Any]) -> Options:
    """The options of aggregate from flat values."""
    settings, rest = divided(values, RULES[values["rule"]].options)
    known = {"settings": settings, "recorded": recorded("aggregate", values)}
    return fill(Options, {**rest, **known})


def agreeing(
    uploads: Sequence[U], check_together: Callable[[list[U]], None], named: Sequence[U]
) -> tuple[list[U], list[str]]:
    """The uploads that fit each other, in client order, and why others were left out.

    Those that were `named` by hand are an error if they do not fit.
    """
    left = list(uploads)
    reasons: list[str] = []
    while left:
        try:
            ordered, again = in_client_order(left)
            check_together(ordered)
            return ordered, [*reasons, *again]
        except UnfitUpload as error:
            if any(upload.path in error.paths for upload in named):
                raise
            reasons.append(str(error))
            left = [upload for upload in left if upload.path not in error.paths]
    return left, reasons


def check_enough(options: Options, clients: Sequence[Upload]) -> None:
    """Too few are no failure: more clients may report later."""
    if len(clients) < options.at_least:
        found = "1 client has" if len(clients) == 1 else f"{len(clients)} clients have"
        raise TooEarlyError(
            f"{found} reported, --at-least asks for {options.at_least}; run the same "
            "command again when more are there"
        )


def check_round(upload: Upload, parent: Upload) -> None:
    """An upload is of the round that starts from a global model."""
    now, found = parent.facts.round + 1, upload.facts.round
    if found != now:
        raise InputError(
            f"{upload.path}: is of round {found}; this is round {now}, which starts from "
            f"{parent.path}"
        )
    if getattr(upload.facts, "parent", None) not in (None, parent.content):
        raise InputError(
            f"{upload.path}: was trained from another model than {parent.path}; "
            f"{_TRAIN_AGAIN}"
        )


def provenance_of(
    options: Options, clients: Sequence[Upload], **resolved: Any
) -> Provenance:
    """How the result is made; `resolved` are options that the inputs decide."""
    contents = {f"client {c.facts.client}": c.content for c in clients}
    return Provenance("aggregate", {**options.recorded, **resolved}, None, contents)


def _again(path: Path, first: Path) -> str:
    """What is said of a file that is there twice."""
    said = "is given twice" if path == first else f"is the same file as {first}"
    return f"{path}: {said}"


def in_client_order(uploads: Iterable[U]) -> tuple[list[U], list[str]]:
    """Each client once, and which files are the same as another one, to the byte.

    What a header says of the file is not compared: it may be a lie. Of a client that has
    sent two different files none is taken.
    """
    sent: dict[ClientId, list[U]] = {}
    for upload in uploads:
        sent.setdefault(upload.facts.client, []).append(upload)
    again: list[str] = []
    for first, *others in sent.values():
        for other in others:
            if not same_bytes(first.path, other.path):
                raise UnfitUpload(
                    f"{first.path} and {other.path}: are both of client "
                    f"{first.facts.client} and differ; leave one of them out",
                    *(upload.path for upload in (first, *others)),
                )
        again += [_again(path, first.path) for path in sorted({u.path for u in others})]
    return [sent[client][0] for client in sorted(sent, key=client_order)], again


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
            raise UnfitUpload(
                f"{upload.path}: its {what} is {value}, the others have {common}; {cure}",
                upload.path,
            )


def check_same_facts(uploads: Sequence[Upload], cures: Mapping[str, str]) -> None:
    """All uploads have the same value of each of these facts."""
    for name, cure in cures.items():
        values = [getattr(upload.facts, name) for upload in uploads]
        check_same(uploads, name, values, cure)
