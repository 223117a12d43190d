"""Partitions without a distribution: IID, m classes per client, or shards."""

import numpy as np

from furlkit.data.partitions.sizes import (
    Parts,
    Rng,
    even_sizes,
    group_by_class,
    split_by_counts,
    split_by_owner,
)
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


def iid(data: LabelSet, clients: int, rng: Rng, *, with_replacement: bool) -> Parts:
    """Equal random parts; with replacement, each client samples from all examples."""
    n = data.examples
    owners = np.repeat(np.arange(clients), even_sizes(n, clients))
    order = rng.integers(0, n, n) if with_replacement else rng.permutation(n)
    return split_by_owner(order, owners, clients)


def classes(
    data: LabelSet,
    clients: int,
    rng: Rng,
    *,
    classes_per_client: int,
    class_copies: int,
    ordered_classes: bool,
) -> Parts:
    """Assign m classes to each client, and each class to at most `class_copies` clients.

    The examples of a class are divided evenly among its clients. All classes are used
    if clients x m >= classes; otherwise some are left out. With `ordered_classes`,
    classes are assigned by number (client 0 gets 0, 1, ...), otherwise at random.
    """
    (order, sizes), m = group_by_class(data, rng), classes_per_client
    _check_request(clients, m, class_copies, len(sizes))
    ties = None if ordered_classes else rng
    has_class = _assign_classes(clients, m, len(sizes), ties)  # (classes, clients)
    counts = np.zeros(has_class.shape, np.int64)
    for c in np.flatnonzero(has_class.any(axis=1)):
        owners = np.flatnonzero(has_class[c])
        counts[c, owners] = even_sizes(sizes[c], len(owners))
    return split_by_counts(order, sizes, counts)


def _check_request(clients: int, m: int, copies: int, available: int) -> None:
    if m > available:
        raise UsageError(
            f"--classes-per-client {m}: the dataset has only {available} classes"
        )
    if clients * m > available * copies:
        raise UsageError(
            f"{clients} clients x {m} classes need {clients * m} classes, found "
            f"{available} x {copies} (--class-copies); lower --classes-per-client or "
            f"raise --class-copies to {-(-clients * m // available)}"
        )


def _assign_classes(
    clients: int, m: int, available: int, rng: Rng | None
) -> np.ndarray:
    """(classes, clients) bool: True if the client gets the class.

    Each client in turn takes the m least assigned classes; ties are broken at random.
    The numbers of clients per class differ by at most one, and no class is given twice.
    """
    has_class = np.zeros((available, clients), bool)
    times = np.zeros(available, np.int64)
    for client in range(clients):
        ties = np.arange(available) if rng is None else rng.random(available)
        taken = np.lexsort((ties, times))[:m]
        has_class[taken, client] = True
        times[taken] += 1
    return has_class


def shards(data: LabelSet, clients: int, rng: Rng, *, shards_per_client: int) -> Parts:
    """Sort by label, cut into equal shards, assign s random shards to each client."""
    total = clients * shards_per_client
    if total > data.examples:
        raise UsageError(
            f"{clients} clients x {shards_per_client} shards need {total:,} examples, "
            f"found {data.examples:,}; lower --shards-per-client or --clients"
        )
    order, _ = group_by_class(data, rng)
    shard_owners = rng.permutation(np.repeat(np.arange(clients), shards_per_client))
    owners = np.repeat(shard_owners, even_sizes(data.examples, total))
    return split_by_owner(order, owners, clients)
