"""Partitions by class without a distribution: some classes a client, or shards."""

import numpy as np

from furlkit.data.partitions.sizes import (
    deal_counts,
    deal_owners,
    even_sizes,
    group_by_class,
)
from furlkit.errors import UsageError


def iid(
    examples: int, clients: int, rng: np.random.Generator, *, replace: bool = False
) -> list[np.ndarray]:
    """Equal random parts; with replacement, each client draws its own from all."""
    owners = np.repeat(np.arange(clients), even_sizes(examples, clients))
    if replace:
        return deal_owners(rng.integers(0, examples, examples), owners, clients)
    return deal_owners(rng.permutation(examples), owners, clients)


def classes(
    labels: np.ndarray,
    clients: int,
    classes_per_client: int,
    rng: np.random.Generator,
    *,
    copies: int = 1,
    ordered: bool = False,
) -> list[np.ndarray]:
    """Give each client m classes, and each class to `copies` clients at most.

    A class is split evenly among its holders. All classes are used where
    clients x m >= classes, else some are left out. `ordered` deals classes by number
    (client 0 gets 0, 1, ...) and not at random.
    """
    grouped = group_by_class(labels, rng)
    _check_request(clients, classes_per_client, copies, len(grouped.classes))
    holds = _deal_classes(
        clients, classes_per_client, len(grouped.classes), None if ordered else rng
    )  # (classes, clients)
    counts = np.zeros(holds.shape, np.int64)
    for c in np.flatnonzero(holds.any(axis=1)):
        holders = np.flatnonzero(holds[c])
        counts[c, holders] = even_sizes(grouped.sizes[c], len(holders))
    return deal_counts(grouped.order, grouped.sizes, counts)


def _check_request(clients: int, m: int, copies: int, available: int) -> None:
    if m > available:
        raise UsageError(
            f"--classes-per-client {m}: there are only {available} classes with examples"
        )
    if clients * m > available * copies:
        held = f"on {copies} clients each" if copies > 1 else "on one client each"
        raise UsageError(
            f"{clients} clients x {m} classes need {clients * m} classes, there are "
            f"{available} {held}; lower --classes-per-client or allow --class-copies "
            f"{-(-clients * m // available)}"
        )


def _deal_classes(
    clients: int, m: int, available: int, rng: np.random.Generator | None
) -> np.ndarray:
    """Each client in turn takes the m classes held least often, ties by lot.

    Holders of two classes then never differ by more than one, and no client can be
    left with the same class twice.
    """
    holds = np.zeros((available, clients), bool)
    times = np.zeros(available, np.int64)
    for client in range(clients):
        ties = np.arange(available) if rng is None else rng.random(available)
        taken = np.lexsort((ties, times))[:m]
        holds[taken, client] = True
        times[taken] += 1
    return holds


def shards(
    labels: np.ndarray, clients: int, shards_per_client: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Sort by label, cut into equal shards, deal s random shards to each client."""
    pieces = clients * shards_per_client
    if pieces > len(labels):
        raise UsageError(
            f"{clients} clients x {shards_per_client} shards need {pieces:,} examples, "
            f"there are {len(labels):,}; lower --shards-per-client or --clients"
        )
    order = group_by_class(labels, rng).order
    takers = rng.permutation(np.repeat(np.arange(clients), shards_per_client))
    return deal_owners(
        order, np.repeat(takers, even_sizes(len(labels), pieces)), clients
    )
