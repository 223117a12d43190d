"""The two Dirichlet partitions, which are often confused.

`dirichlet`         each CLASS is spread over the clients by Dir(alpha): clients differ
                    in their classes and in how much they have.
`dirichlet-client`  each CLIENT draws its mix of classes from Dir(beta): all clients
                    have the same number of examples.
"""

import numpy as np

from furlkit.data.partitions.sizes import (
    Grouped,
    apportion,
    deal_counts,
    even_sizes,
    group_by_class,
)


def dirichlet(
    labels: np.ndarray,
    clients: int,
    alpha: float,
    rng: np.random.Generator,
    *,
    cap: bool = False,
) -> list[np.ndarray]:
    """Spread each class over clients by Dir(alpha).

    With `cap`, a client that has reached the mean size gets nothing of the classes
    that follow.
    """
    grouped = group_by_class(labels, rng)
    shares = rng.dirichlet(np.full(clients, alpha), size=len(grouped.sizes))
    if cap:
        counts = _capped_counts(shares, grouped.sizes, rng)
    else:
        counts = apportion(shares, grouped.sizes, rng)  # (classes, clients)
    return deal_counts(grouped.order, grouped.sizes, counts)


def _capped_counts(
    shares: np.ndarray, sizes: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    counts = np.zeros(shares.shape, np.int64)
    held = np.zeros(shares.shape[1], np.int64)
    mean = sizes.sum() / shares.shape[1]
    for c, size in enumerate(sizes):
        row = _restricted(shares[c : c + 1], held < mean)
        counts[c] = apportion(row, np.array([size]), rng)[0]
        held += counts[c]
    return counts


def _restricted(shares: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Rows over the allowed columns alone, summing to 1.

    A small alpha leaves some rows with no weight there at all: those become even.
    """
    kept = shares * allowed
    total = kept.sum(axis=1, keepdims=True)
    even = np.broadcast_to(allowed / allowed.sum(), kept.shape)
    return np.where(total > 0, kept / np.where(total > 0, total, 1), even)


def dirichlet_client(
    labels: np.ndarray,
    clients: int,
    beta: float,
    rng: np.random.Generator,
    *,
    replace: bool = False,
) -> list[np.ndarray]:
    """Let each client draw its class mix from Dir(beta) and the same number of examples.

    Without replacement all examples are dealt: when a class is exhausted, its share
    passes to the client's other classes in proportion.
    """
    grouped = group_by_class(labels, rng)
    mixes = rng.dirichlet(np.full(len(grouped.sizes), beta), size=clients)
    totals = even_sizes(len(labels), clients)
    if replace:
        return _draw_with_replacement(grouped, mixes, totals, rng)
    counts = _fill_from_stock(mixes, totals, grouped.sizes, rng)  # (clients, classes)
    return deal_counts(grouped.order, grouped.sizes, counts.T)


def _draw_with_replacement(
    grouped: Grouped,
    mixes: np.ndarray,
    totals: np.ndarray,
    rng: np.random.Generator,
) -> list[np.ndarray]:
    clients, classes = mixes.shape
    counts = rng.multinomial(totals, mixes)
    drawn = np.repeat(np.tile(np.arange(classes), clients), counts.ravel())
    place = grouped.starts[drawn] + rng.integers(0, grouped.sizes[drawn])
    parts = np.split(grouped.order[place].astype(np.int64), np.cumsum(totals)[:-1])
    return [np.sort(part) for part in parts]


def _fill_from_stock(
    mixes: np.ndarray, totals: np.ndarray, stock: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """All clients order at once, a class that is short is shared out by lot, and what
    was not served is ordered again from the classes that are left.

    Serving one client after the other would leave the last ones with the remains.
    """
    counts = np.zeros(mixes.shape, np.int64)
    need, stock = totals.copy(), stock.copy()
    while need.any():
        rows, columns = np.flatnonzero(need), np.flatnonzero(stock)
        part = np.ix_(rows, columns)
        mix = _restricted(mixes[part], np.ones(len(columns), bool))
        served = _serve(rng.multinomial(need[rows], mix), stock[columns], rng)
        counts[part] += served
        need[rows] -= served.sum(axis=1)
        stock[columns] -= served.sum(axis=0)
    return counts


def _serve(
    orders: np.ndarray, stock: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    served = orders.copy()
    for c in np.flatnonzero(orders.sum(axis=0) > stock):
        served[:, c] = rng.multivariate_hypergeometric(
            orders[:, c], stock[c], method="marginals"
        )
    return served
