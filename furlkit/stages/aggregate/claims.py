"""aggregate: what clients claim of themselves, and how much of it counts."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

import numpy as np

from furlkit import console
from furlkit.aggregators.dictionary import unit_rows
from furlkit.aggregators.mean import dominant, limited
from furlkit.files.features import Features
from furlkit.files.partition import Partition
from furlkit.inputs.uploads import Upload, check_fit

C = TypeVar("C", bound=Any)
SHOWN = 10  # Clients that a message names.
# Rows that differ by less repeat each other; so many of them, of 1, are named.
DIGITS, REPEATED = 4, 0.1


def check_members(clients: Sequence[Upload], partition: Partition) -> None:
    """Refuse clients that a partition does not have, or that tell of another one."""
    number = partition.facts.clients
    check_fit(
        (
            client,
            f"is of client {client.facts.client}, {partition.path} has the clients 0 to "
            f"{number - 1}; leave it out",
        )
        for client in clients
        if isinstance(client.facts.client, str) or client.facts.client >= number
    )
    check_fit(
        (
            client,
            f"client {client.facts.client} was trained under another partition than "
            f"{partition.path}; train it again, or leave it out",
        )
        for client in clients
        if client.facts.partition not in (None, partition.content)
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
        rest = f" and {len(who) - SHOWN} more" if len(who) > SHOWN else ""
        console.warn(f"--max-share {most:g}: cut {', '.join(who[:SHOWN])}{rest}")
    return found


def name_repeats(clients: Sequence[Features]) -> None:
    """Warn of a client whose rows are, in part, the same direction again and again."""
    for client in clients:
        repeats = repeated(client.rows)
        if repeats > REPEATED * len(client.rows):
            console.warn(
                f"{client.path}: {repeats:,} of the {len(client.rows):,} rows of client "
                f"{client.facts.client} repeat others of its rows; it is hostile or its "
                "model has collapsed"
            )


def repeated(rows: np.ndarray) -> int:
    """How many rows are, to DIGITS digits of their direction, one that came before."""
    # Adding 0 makes 0 of -0, whose bytes differ.
    rounded = np.round(unit_rows(rows), DIGITS) + 0
    return len(rows) - len({row.tobytes() for row in rounded})
