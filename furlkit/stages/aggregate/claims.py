"""aggregate: what clients claim of themselves, and how much of it counts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from furlkit import console
from furlkit.aggregators.mean import dominant, limited
from furlkit.files.partition import Partition
from furlkit.inputs.uploads import UnfitUpload, Upload

C = TypeVar("C", bound=Any)


def check_members(clients: Sequence[Upload], partition: Partition) -> None:
    """Refuse a client that a partition does not have, or that tells of another one."""
    for client in clients:
        number, told = client.facts.client, client.facts.partition
        if isinstance(number, str) or number >= partition.facts.clients:
            raise UnfitUpload(
                f"{client.path}: is of client {number}, {partition.path} has the clients "
                f"0 to {partition.facts.clients - 1}; leave it out",
                client.path,
            )
        if told not in (None, partition.content):
            raise UnfitUpload(
                f"{client.path}: client {number} was trained under another partition than "
                f"{partition.path}; train it again, or leave it out",
                client.path,
            )


def capped(clients: list[C], partition: Partition | None) -> list[C]:
    """Nobody has more examples than the partition gave; who claims more is named."""
    return [_capped(client, partition) for client in clients] if partition else clients


def _capped(client: C, partition: Partition) -> C:
    facts, most = client.facts, int(partition.sizes[client.facts.client])
    if facts.examples is None or facts.examples <= most:
        return client
    console.warn(
        f"{client.path}: client {facts.client} claims {facts.examples:,} examples and has "
        f"{most:,} in {partition.path}, which count"
    )
    return client._replace(facts=replace(facts, examples=most))


def name_dominant(clients: Sequence[Upload], shares: Sequence[float]) -> None:
    """Warn of a client that by its own claim counts more than the others together."""
    place = dominant(shares)
    if place is not None:
        client = clients[place]
        console.warn(
            f"{client.path}: client {client.facts.client} counts {shares[place]:.1%} by "
            f"the {client.facts.examples:,} examples that it claims; cap it by "
            "--partition or --max-share"
        )


def cut(
    clients: Sequence[Upload], shares: list[float], most: float | None
) -> list[float]:
    """Shares of at most `most`; one line says who was cut."""
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
        rest = f" and {len(who) - 10} more" if len(who) > 10 else ""
        console.warn(f"--max-share {most:g}: cut {', '.join(who[:10])}{rest}")
    return found
