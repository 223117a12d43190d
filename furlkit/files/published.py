"""Published files: entries of headers that stay with the writer, and records.

A file for other organisations has a header without some entries; the record of the file
has the whole header and stays with the writer. `Withheld.reduce` is the only place that
shortens a header.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from furlkit.errors import FurlkitError, InputError
from furlkit.files.container.header import Header, PublishedHeader
from furlkit.files.container.read import Container, open_kind
from furlkit.files.container.write import record_of
from furlkit.files.secret import FINGERPRINT

# Entry of the options in a header that is not the whole header.
RECORD, KEPT = "record", "kept"
KIND = "record"
DATASET = "dataset"  # Fact of records: fingerprint of the images of a site.
H = TypeVar("H", bound=Header)


@dataclass(frozen=True)
class Withheld:
    """Entries that a published header leaves out, and the path of the record.

    `shown`: roles of the inputs that remain. `facts` has names by kind of file. Without a
    `record` the record is beside the file. `secret` and `dataset`: fingerprints of the
    site's secret and images, for the record only.
    """

    shown: frozenset[str] = frozenset()
    options: frozenset[str] = frozenset()
    facts: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    seed: bool = False
    record: Path | None = None
    secret: str | None = None
    dataset: dict[str, Any] | None = None

    def reduce(self, header: Header) -> PublishedHeader:
        """Return the header to publish, which refers to the whole header."""
        facts = _without(header.facts, self.facts.get(header.kind, ()))
        inputs = {k: v for k, v in header.inputs.items() if k in self.shown}
        kept = {FINGERPRINT: self.secret, DATASET: self.dataset}
        return PublishedHeader(
            header.kind, header.stage,
            {**_without(header.options, self.options), RECORD: KEPT},
            None if self.seed else header.seed,
            inputs, facts, full=header, record=self.record,
            kept={name: value for name, value in kept.items() if value},
        )  # fmt: skip

    def full_header(self, path: Path, header: Header) -> Header:
        """Return the whole header of a published file; raise without the record."""
        record = self.record or record_of(path)
        found = open_kind(record, KIND).header
        if published_by(found) != header.content:
            raise InputError(f"{record}: is not the record of {path}")
        return completed(header, found)


def _without(entries: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    return {key: value for key, value in entries.items() if key not in set(names)}


def lacks_record(header: Header) -> bool:
    """Return whether entries of this header are only in a record."""
    return header.options.get(RECORD) == KEPT


def has_record(file: Container) -> bool:
    """Return whether the record of a published file is beside the file."""
    try:
        Withheld().full_header(file.path, file.header)
    except FurlkitError:
        return False
    return True


def published_by(record: Header) -> str:
    """Content hash of the published file of a record."""
    return str(record.facts.get("published"))


def completed(header: H, record: Header | None) -> H:
    """Return the whole header; the published facts prevail over the record's."""
    facts = record.facts.get("facts") if record else None
    if record is None or not isinstance(facts, dict) or not lacks_record(header):
        return header
    return replace(
        header, options=record.options, seed=record.seed, inputs=record.inputs,
        facts={**facts, **header.facts},
    )  # fmt: skip


def records_by_content(headers: Iterable[Header]) -> dict[str, Header]:
    """Records among some headers, by the content hash of the published file."""
    return {published_by(each): each for each in headers if each.kind == KIND}
