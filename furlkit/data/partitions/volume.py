"""Partitions by volume: clients of different sizes."""

import numpy as np

from furlkit.data.partitions.sizes import (
    Parts,
    Rng,
    group_by_class,
    split_by_counts,
    split_by_owner,
)
from furlkit.data.sets.labels import LabelSet


def volume_shares(clients: int, delta: float, gamma: float) -> np.ndarray:
    """Share of client i: delta / n + (1 - delta) gamma^i / sum_j gamma^j.

    delta = 1 or gamma = 1 makes all clients equal.
    """
    # Exponents are at most 0 if gamma > 1, to avoid overflow.
    powers = gamma ** (np.arange(clients) - (clients - 1 if gamma > 1 else 0))
    return delta / clients + (1 - delta) * powers / powers.sum()


def volume(
    data: LabelSet,
    clients: int,
    rng: Rng,
    *,
    even_share: float,
    decay: float,
    classes_per_client: int | None = None,
) -> Parts:
    """Random clients with the sizes of `volume_shares`, or with m classes each.

    With classes, a client starts at a random class and takes 1/m of the client's size
    from each of m consecutive classes. Sizes are exact: a client with exhausted classes
    continues with the next classes and ends with more than m classes.
    """
    # Sizes are within one of share x examples, and sum to the examples.
    shares = volume_shares(clients, even_share, decay)
    cuts = np.rint(np.cumsum(shares) * data.examples).astype(np.int64)
    cuts[-1] = data.examples
    sizes = np.diff(cuts, prepend=0)
    if classes_per_client is None:
        owners = np.repeat(np.arange(clients), sizes)
        return split_by_owner(rng.permutation(data.examples), owners, clients)
    order, class_sizes = group_by_class(data, rng)
    left = class_sizes.copy()
    counts = np.zeros((len(left), clients), np.int64)
    for client, size in enumerate(sizes):
        portion = -(-int(size) // classes_per_client)
        start = int(rng.integers(len(left)))
        counts[:, client] = _take(int(size), portion, left, start)
        left -= counts[:, client]
    return split_by_counts(order, class_sizes, counts)


def _take(size: int, portion: int, left: np.ndarray, start: int) -> np.ndarray:
    """Counts per class that sum to `size`: a portion of each class, from `start` on."""
    taken = np.zeros_like(left)
    while size > 0:
        available = np.flatnonzero(left > taken)
        order = np.roll(available, -np.searchsorted(available, start))
        portions = np.minimum(portion, (left - taken)[order])
        before = np.cumsum(portions) - portions
        taken[order] += np.clip(size - before, 0, portions)
        size -= int(min(portions.sum(), size))
    return taken
