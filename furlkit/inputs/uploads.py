"""What clients sent: in client order, each client once, all of one round."""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, Protocol, TypeVar

from furlkit.errors import InputError, TooEarlyError


class Facts(Protocol):
    """What a header says of its client."""

    @property
    def client(self) -> int | None:
        """The client's number."""


class Upload(Protocol):
    """A file of a client."""

    @property
    def path(self) -> Path:
        """Where it lies."""

    @property
    def facts(self) -> Facts:
        """What its header says."""

    @property
    def content(self) -> str:
        """Its content hash."""


U = TypeVar("U", bound=Upload)


def in_client_order(uploads: Iterable[U]) -> list[U]:
    """The same file twice is one; two files of a client are one too many."""
    once: dict[str, U] = {}
    for upload in uploads:
        once.setdefault(upload.content, upload)
    ordered = sorted(once.values(), key=lambda upload: upload.facts.client or 0)
    for one, other in pairwise(ordered):
        if one.facts.client == other.facts.client:
            raise InputError(
                f"{one.path} and {other.path}: are both of client {one.facts.client} "
                "and differ; leave one of them out"
            )
    return ordered


def check_same(
    uploads: Sequence[Upload], what: str, values: Sequence[Any], cure: str = ""
) -> None:
    """The majority is right: one stale client, or one of another net, is the odd one."""
    common = max(values, key=list(values).count)
    for upload, value in zip(uploads, values, strict=True):
        if value != common:
            raise InputError(
                f"{upload.path}: its {what} is {value}, the others have {common}"
                + (f"; {cure}" if cure else "")
            )


def check_enough(count: int, wanted: int) -> None:
    """Fewer clients than asked for is no failure: there may be more later."""
    if count < wanted:
        raise TooEarlyError(
            f"{count} clients have reported, --min-clients asks for {wanted}; run the "
            "same command again when more are there"
        )


TRAIN_AGAIN = "train that client again from the current global model"
