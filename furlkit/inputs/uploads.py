"""Uploads of a round, in client order, a single upload for each client.

A named file that does not fit is an error. In a folder, the server's inbox, files that
do not fit are left out: see `inbox`.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from furlkit.catalogue import Rule, divided, recorded, rules
from furlkit.errors import InputError, TooEarlyError, UsageError
from furlkit.files.clients import ClientId, client_order
from furlkit.files.container.read import Container
from furlkit.files.facts import Provenance
from furlkit.files.opening import same_bytes
from furlkit.inputs.declared import by_role
from furlkit.inputs.publishing import ANONYMOUS, OF_SITES, withheld_by_server
from furlkit.inputs.settings import fill
from furlkit.weights import parts_of, within

TRAIN_AGAIN = "train that client again from the current global model"
# Facts that uploads of a round share, and the advice if they differ.
ROUND = dict.fromkeys(("run", "round", "parent"), TRAIN_AGAIN)
# Maximum size of a named model, relative to the usual model.
MOST_TIMES = 16


@dataclass(frozen=True)
class UploadOptions:
    """Uploads to combine, and how; `settings`: options of the rule.

    `inputs`: files and folders. `parent`: global model at the start of the round.
    `state`: memory of the rule after the previous round. `wait`: how long to wait for
    `expect` uploads in the folders. `members` and `signers`: lists of accepted clients.
    `anonymous`: publish without names of sites, with a `record`; None until the uploads
    are open, if they decide.
    """

    inputs: tuple[Path, ...]
    output: Path
    rule: str
    settings: dict[str, Any]
    parent: Path | None
    state: Path | None
    state_out: Path | None
    at_least: int
    expect: int | None
    wait: str | None
    max_upload: int
    members: Path | None
    signers: Path | None
    trust_headers: bool
    anonymous: bool | None
    record: Path | None
    dry_run: bool
    force: bool
    recorded: dict[str, Any]


class Upload(Protocol):
    """A file of a client."""

    @property
    def path(self) -> Path:
        """Path of the file."""

    @property
    def facts(self) -> Any:
        """Facts of the header, including the client."""

    @property
    def content(self) -> str:
        """Content hash of the file."""


class OpenedUpload(Upload, Protocol):
    """An upload with a header that was read."""

    @property
    def opened(self) -> Container:
        """The opened file."""


U = TypeVar("U", bound=Upload)


class Sent(NamedTuple):
    """An upload by header alone, before reading tensors."""

    path: Path
    content: str
    opened: Container
    facts: Any


class Taken(NamedTuple, Generic[U]):
    """An upload, and the file it was read from."""

    upload: U
    file: Container


class UnfitUpload(InputError):
    """Uploads that do not fit the rest: a reason for each path."""

    def __init__(self, reasons: Mapping[Path, str]):
        super().__init__(next(iter(reasons.values())))
        self.reasons = dict(reasons)


def options_of(values: Mapping[str, Any]) -> UploadOptions:
    """Sort flat values into the options of aggregate."""
    settings, rest = divided(values, rules()[values["rule"]].options)
    words = recorded("aggregate", values)
    words.pop(ANONYMOUS, None)  # Depends on the clients; see `open_uploads`.
    known = {"settings": settings, "recorded": words}
    return fill(UploadOptions, {**rest, **known})


def agreeing(
    uploads: Sequence[U],
    check_together: Callable[[list[U]], None],
    named: Sequence[U],
    verified: bool = True,
) -> tuple[list[U], dict[Path, str]]:
    """Return fitting uploads in client order, and the reasons against the rest.

    A `named` upload that does not fit is an error. Content hashes are `verified` unless
    headers are trusted.
    """
    left = list(uploads)
    reasons: dict[Path, str] = {}
    while left:
        try:
            ordered, again = in_client_order(left, verified)
            check_together(ordered)
            return ordered, {**reasons, **again}
        except UnfitUpload as error:
            for upload in named:
                if upload.path in error.reasons:
                    raise InputError(error.reasons[upload.path]) from error
            reasons |= error.reasons
            left = [upload for upload in left if upload.path not in error.reasons]
    return left, reasons


def check_enough(options: UploadOptions, clients: Sequence[Upload]) -> None:
    """Raise TooEarlyError for too few uploads: more clients may report later."""
    if len(clients) < options.at_least:
        found = "1 client has" if len(clients) == 1 else f"{len(clients)} clients have"
        raise TooEarlyError(
            f"{found} reported, --at-least asks for {options.at_least}; run this "
            "command again after more uploads"
        )


def check_table_size(upload: OpenedUpload, most: int) -> None:
    """Check by header that a table of rows has at most `most` megabytes.

    No other file records a client's number of rows, so the limit is an option.
    """
    opened = upload.opened
    if opened.header.kind != "checkpoint" and opened.size > most * 10**6:
        raise InputError(
            f"{upload.path}: has {opened.size / 1e6:,.0f} MB of rows, expected at most "
            f"{most:,}; if this is right, raise --max-upload"
        )


def check_model_sizes(uploads: Sequence[OpenedUpload]) -> None:
    """Check by header that models have similar sizes."""
    models = [each for each in uploads if each.opened.header.kind == "checkpoint"]
    sizes = sorted(model.opened.size for model in models)
    common = sizes[(len(sizes) - 1) // 2] if sizes else 0
    for model in models:
        if model.opened.size > MOST_TIMES * common:
            raise InputError(
                f"{model.path}: has {model.opened.size:,} bytes of tensors, the others "
                f"have {common:,}; was it trained with another --encoder or --width?"
            )


def provenance_of(
    options: UploadOptions, clients: Sequence[Upload], **resolved: Any
) -> Provenance:
    """Provenance of the result; `resolved`: options decided by the inputs."""
    contents = by_role("aggregate", inputs={c.facts.client: c for c in clients})
    words = {**options.recorded, **resolved}
    if not options.anonymous:
        return Provenance("aggregate", words, None, contents)
    withheld = withheld_by_server("aggregate", options.record, OF_SITES)
    return Provenance("aggregate", {**words, ANONYMOUS: True}, None, contents, withheld)


def shown_ids(options: UploadOptions, clients: Sequence[Upload]) -> list[ClientId]:
    """Clients as the result names them: numbers without a meaning if anonymous."""
    if options.anonymous:
        return [*range(len(clients))]
    return [client.facts.client or 0 for client in clients]


def _again(path: Path, first: Path) -> str:
    """Message about a duplicate file."""
    said = "is given twice" if path == first else f"is the same file as {first}"
    return f"{path}: {said}"


def in_client_order(
    uploads: Iterable[U], verified: bool
) -> tuple[list[U], dict[Path, str]]:
    """Return one upload for each client, and the byte-equal duplicates.

    Content hashes that are not `verified` are not trusted; bytes are compared instead.
    Both files of a client with two different files are refused.
    """
    sent: dict[ClientId, list[U]] = {}
    for upload in uploads:
        sent.setdefault(upload.facts.client, []).append(upload)
    again: dict[Path, str] = {}
    unfit: dict[Path, str] = {}
    for first, *others in sent.values():
        other = next((o for o in others if not _same(first, o, verified)), None)
        if other is None:
            again |= {each.path: _again(each.path, first.path) for each in others}
            continue
        reason = (
            f"{first.path} and {other.path}: are both of client {first.facts.client} "
            "and differ; leave one of them out"
        )
        unfit |= {each.path: reason for each in (first, *others)}
    if unfit:
        raise UnfitUpload(unfit)
    return [sent[client][0] for client in sorted(sent, key=client_order)], again


def _same(one: Upload, other: Upload, verified: bool) -> bool:
    """Return whether two files have equal bytes; a missing file differs."""
    if one.content != other.content:
        return False
    try:
        return verified or same_bytes(one.path, other.path)
    except InputError:
        return False


def usual(uploads: Sequence[U], values: Sequence[Hashable]) -> U:
    """Return the first upload with the most frequent value."""
    return uploads[values.index(Counter(values).most_common(1)[0][0])]


def check_same(
    uploads: Sequence[Upload], what: str, values: Sequence[Hashable], cure: str
) -> None:
    """Refuse uploads that differ from most: stale clients, or another network."""
    common = Counter(values).most_common(1)[0][0]
    pairs = zip(uploads, values, strict=True)
    check_fit(
        (upload, f"{what} is {value}, the others have {common}; {cure}")
        for upload, value in pairs
        if value != common
    )


def check_fit(unfit: Iterable[tuple[Upload, str]]) -> None:
    """Refuse several uploads at once, each with a reason."""
    reasons = {upload.path: f"{upload.path}: {reason}" for upload, reason in unfit}
    if reasons:
        raise UnfitUpload(reasons)


def check_same_facts(uploads: Sequence[Upload], cures: Mapping[str, str]) -> None:
    """Check that uploads agree in these facts."""
    for name, cure in cures.items():
        values = [getattr(upload.facts, name) for upload in uploads]
        check_same(uploads, name, values, cure)


def check_added(path: Path, names: Iterable[str], rule: Rule) -> None:
    """Refuse changes that another rule adds to the parent: they are no weights."""
    parts = parts_of(names)
    for other in rules().values():
        changes = [part for part in parts if within(part, other.adds)]
        if changes and not within(changes[0], rule.adds):
            raise UsageError(
                f"--rule {rule.name}: {path} has the part {changes[0]}, which only "
                f"--rule {other.name} combines"
            )
