"""Partitions by volume: clients that differ in how much they have."""

import numpy as np

from furlkit.data.partitions.sizes import deal_counts, deal_owners, group_by_class


def volume_shares(clients: int, delta: float, gamma: float) -> np.ndarray:
    """Share of client i: delta / n + (1 - delta) gamma^i / sum_j gamma^j.

    delta = 1 or gamma = 1 makes all clients equal.
    """
    # From the largest down, so that a gamma above 1 cannot overflow.
    powers = gamma ** (np.arange(clients) - (clients - 1 if gamma > 1 else 0))
    return delta / clients + (1 - delta) * powers / powers.sum()


def volume_sizes(examples: int, shares: np.ndarray) -> np.ndarray:
    """Whole sizes within one of share x examples that sum to `examples`."""
    cuts = np.rint(np.cumsum(shares) * examples).astype(np.int64)
    cuts[-1] = examples
    return np.diff(cuts, prepend=0)


def volume(
    examples: int,
    clients: int,
    delta: float,
    gamma: float,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Clients of the sizes that `volume_shares` gives, labels at random."""
    sizes = volume_sizes(examples, volume_shares(clients, delta, gamma))
    owners = np.repeat(np.arange(clients), sizes)
    return deal_owners(rng.permutation(examples), owners, clients)


def volume_classes(
    labels: np.ndarray,
    shares: np.ndarray,
    classes_per_client: int,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    """Clients of the sizes that `shares` gives, each filled from m classes.

    A client starts at a random class and takes an m-th of its size from that class
    and from those that follow it. Sizes are exact, so a client whose classes run out
    goes on to the next ones and ends with more than m classes.
    """
    grouped = group_by_class(labels, rng)
    sizes, left = volume_sizes(len(labels), shares), grouped.sizes.copy()
    counts = np.zeros((len(left), len(sizes)), np.int64)
    for client, size in enumerate(sizes):
        portion = -(-int(size) // classes_per_client)
        counts[:, client] = _fill(
            int(size), portion, left, int(rng.integers(len(left)))
        )
        left -= counts[:, client]
    return deal_counts(grouped.order, grouped.sizes, counts)


def _fill(size: int, portion: int, left: np.ndarray, start: int) -> np.ndarray:
    """Take `size` from what is left, a portion a class, going round from `start`."""
    taken = np.zeros_like(left)
    while size > 0:
        stock = np.flatnonzero(left > taken)
        turn = np.roll(stock, -np.searchsorted(stock, start))  # classes from start on
        wish = np.minimum(portion, (left - taken)[turn])
        before = np.cumsum(wish) - wish
        taken[turn] += np.clip(size - before, 0, wish)
        size -= int(min(wish.sum(), size))
    return taken
