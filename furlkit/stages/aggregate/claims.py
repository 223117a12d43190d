"""aggregate: limits on numbers that clients claim about themselves."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from furlkit import console
from furlkit.aggregators.dictionary import repeat_warnings
from furlkit.aggregators.mean import dominant, limited
from furlkit.files.features import Features
from furlkit.files.partition import Partition
from furlkit.inputs.members import Members
from furlkit.inputs.uploads import Upload, check_fit

C = TypeVar("C", bound=Any)
SHOWN = 10  # Maximum number of clients in a message.
# Default of --max-share for SITES or more sites.
SITES, OF_SITES = 3, 0.5


class Limit(NamedTuple):
    """Largest share of a client, None for no limit; `option`: words for messages."""

    most: float | None
    option: str


def limit_of(given: float | None, partitions: Sequence[str | None]) -> Limit:
    """Return the limit of --max-share, or the default limit for sites.

    `partitions`: the partition in the header of each upload. The clients are sites
    unless all uploads name one partition: a single client cannot turn the default off.
    """
    sites = None in partitions or len({str(each) for each in partitions}) > 1
    if given is None and sites and len(partitions) >= SITES:
        words = f"--max-share {OF_SITES:g}, the default without a partition"
        return Limit(OF_SITES, f"{words} (--max-share 1: no limit)")
    return Limit(given, "" if given is None else f"--max-share {given:g}")


def check_members(clients: Sequence[Upload], partition: Partition) -> None:
    """Refuse clients outside the partition, or with another partition."""
    number = partition.facts.clients
    check_fit(
        (
            client,
            f"is of client {client.facts.client}, {partition.path} has the clients 0 to "
            f"{number - 1}; leave the upload out",
        )
        for client in clients
        if isinstance(client.facts.client, str) or client.facts.client >= number
    )
    check_fit(
        (
            client,
            f"client {client.facts.client} was trained under another partition than "
            f"{partition.path}; train again, or leave the upload out",
        )
        for client in clients
        if client.facts.partition not in (None, partition.content)
    )


def capped(
    clients: list[C], partition: Partition | None, members: Members | None
) -> list[C]:
    """Limit examples to the numbers of the partition and of the members file."""
    if partition:
        sizes, path = partition.sizes, partition.path
        clients = [_capped(c, int(sizes[c.facts.client]), path) for c in clients]
    if members:
        most = [members[str(client.facts.client)].examples for client in clients]
        pairs = zip(clients, most, strict=True)
        clients = [_capped(client, limit, members.path) for client, limit in pairs]
    return clients


def _capped(client: C, most: int | None, source: Path) -> C:
    """Limit a client's examples to `most`; warn about a larger claim."""
    facts = client.facts
    if most is None or facts.examples is None or facts.examples <= most:
        return client
    console.warn(
        f"{client.path}: client {facts.client} claims {facts.examples:,} examples; the "
        f"{most:,} in {source} count"
    )
    return client._replace(facts=replace(facts, examples=most))


def name_dominant(clients: Sequence[Upload], shares: Sequence[float]) -> None:
    """Warn about a client with more weight than the others together, by claim."""
    place = dominant(shares)
    if place is not None:
        client = clients[place]
        console.warn(
            f"{client.path}: client {client.facts.client} counts {shares[place]:.1%} by "
            f"claiming {client.facts.examples:,} examples; limit the share by "
            "--partition or --max-share"
        )


def cut(clients: Sequence[Upload], shares: list[float], limit: Limit) -> list[float]:
    """Limit the shares; warn about limited clients in one line."""
    most = limit.most
    if most is None:
        return shares
    found = limited(shares, most)
    over = max(most, 1 / len(shares))
    who = [
        f"client {client.facts.client} ({before:.3g})"
        for client, before in zip(clients, shares, strict=True)
        if before > over * (1 + 1e-9)
    ]
    if who:
        rest = f" and {len(who) - SHOWN} more" if len(who) > SHOWN else ""
        console.warn(f"{limit.option}: cut {', '.join(who[:SHOWN])}{rest}")
    return found


def name_repeats(clients: Sequence[Features]) -> None:
    """Warn about clients with many rows of one direction."""
    for warning in repeat_warnings(clients):
        console.warn(warning)
