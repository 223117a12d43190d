"""aggregate for rules that read any kind of file besides models.

The entry of the rule declares the kinds that the rule reads and writes, the facts and
sizes that uploads share, and a check of a single upload.
"""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from furlkit import console
from furlkit.aggregators.shared import Combined
from furlkit.catalogue import Rule, load, rules
from furlkit.errors import InputError
from furlkit.files.container.header import with_article
from furlkit.files.container.read import Container
from furlkit.files.kinds import kind_of
from furlkit.inputs.existing import existing_result
from furlkit.inputs.inbox import Kind, open_uploads
from furlkit.inputs.uploads import (
    ROUND,
    TRAIN_AGAIN,
    Sent,
    Upload,
    check_same,
    check_same_facts,
    provenance_of,
)
from furlkit.reports.text import counted
from furlkit.stages.aggregate import images


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Check the uploads, alone and together; combine, and write the result."""
    rule = rules()[values["rule"]]
    _check_kinds(rule)
    options, clients = open_uploads(values, uploads_of(rule))
    combined: Combined = load(rule.function)(clients, **options.settings)
    for warning in combined.warnings:
        console.warn(warning)
    first, count = clients[0].facts, len(clients)
    line = (
        f"{options.output}: round {first.round}, {combined.text} of "
        f"{counted(count, 'client')}"
    )
    data = {"round": first.round, "clients": count, **combined.data}
    if options.dry_run:
        return line, data
    facts = replace(first, client=None, **combined.facts)
    if options.anonymous and getattr(facts, "owners", None):
        owners = [[k, *rest] for k, (_, *rest) in enumerate(facts.owners)]
        facts = replace(facts, owners=owners)
    provenance = provenance_of(options, clients)
    if made := existing_result(options, rule.writes, provenance, facts, data):
        return made
    kind = kind_of(rule.writes)
    write = load(f"{kind.module}:write_result")
    withheld = kind.withheld if options.anonymous else ()
    tensors = {k: v for k, v in combined.make().items() if k not in withheld}
    about = (tensors, facts, provenance)
    data["content"] = write(options.output, rule.writes, *about)
    return line, data


def _check_kinds(rule: Rule) -> None:
    """Refuse the rule of a package with a kind that is misspelt or not installed."""
    try:
        for kind in (*rule.reads.split("|"), rule.writes):
            kind_of(kind)
    except InputError as error:
        raise InputError(f"--rule {rule.name}: {error}") from error


def uploads_of(rule: Rule) -> Kind:
    """Functions that open and check the uploads of a rule, by the rule's entry."""

    def open_(path: Path) -> Sent:
        sent = open_upload(path, rule)
        if rule.images:
            images.check_upload(sent)
        elif sent.facts.client is None:
            raise InputError(f"{path}: is of no client; pass the clients' files")
        return sent

    def examine(sent: Sent, by: str | None, remember: bool) -> Any:
        upload = read_upload(sent, by, remember)
        if rule.check:
            load(rule.check)(upload)
        return upload

    def check_together(clients: list[Any]) -> None:
        if rule.images:
            images.check_together(clients)
        else:
            check_same_facts(clients, ROUND)
        _check_same(clients, rule.same)

    return Kind(rule.reads.split("|"), open_, examine, check_together)


def open_upload(path: Path, rule: Rule) -> Sent:
    """Open a file of a kind that the rule reads, by header alone."""
    kinds = rule.reads.split("|")
    kind = kinds[0] if len(kinds) == 1 else Container(path).header.kind
    if kind not in kinds:
        raise InputError(
            f"{path}: is {with_article(kind)} file, --rule {rule.name} expects a "
            f"{' or '.join(kinds)} file of a client"
        )
    opened, facts = load(f"{kind_of(kind).module}:open_upload")(path, kind)
    return Sent(opened.path, opened.content, opened, facts)


def read_upload(sent: Sent, by: str | None, remember: bool) -> Any:
    """Read the numbers of an opened file and compare the hash `by` of the bytes read."""
    read = load(f"{kind_of(sent.opened.header.kind).module}:read_upload")
    return read(sent.opened, sent.facts, by or "check", remember)


def _check_same(clients: Sequence[Upload], names: Sequence[str]) -> None:
    """Check that uploads agree in facts or sizes."""
    for name in names:
        values = [
            client.sizes[name]  # type: ignore[attr-defined]
            if name in getattr(client, "sizes", {})
            else getattr(client.facts, name)
            for client in clients
        ]
        check_same(clients, name, values, TRAIN_AGAIN)
