"""The two Dirichlet partitions, which are often confused.

`dirichlet`         each CLASS is divided among the clients by Dir(alpha): clients
                    differ in size and in class mix.
`dirichlet-client`  each CLIENT draws a class mix from Dir(beta): clients have equal
                    sizes and differ in class mix.
"""

import numpy as np

from furlkit.data.partitions.sizes import (
    Parts,
    Rng,
    apportion,
    even_sizes,
    group_by_class,
    split_by_counts,
    split_by_owner,
)
from furlkit.data.sets.labels import LabelSet


def dirichlet(
    data: LabelSet, clients: int, rng: Rng, *, concentration: float, cap_at_mean: bool
) -> Parts:
    """Divide each class among the clients by Dir(alpha), alpha the concentration.

    With `cap_at_mean`, a client of at least mean size gets no examples of later
    classes.
    """
    order, sizes = group_by_class(data, rng)
    shares = rng.dirichlet(np.full(clients, concentration), size=len(sizes))
    count = _capped_counts if cap_at_mean else apportion
    return split_by_counts(order, sizes, count(shares, sizes, rng))


def _capped_counts(shares: np.ndarray, sizes: np.ndarray, rng: Rng) -> np.ndarray:
    counts = np.zeros(shares.shape, np.int64)
    client_sizes = np.zeros(shares.shape[1], np.int64)
    mean = sizes.sum() / shares.shape[1]
    for c, size in enumerate(sizes):
        row = _renormalised(shares[c : c + 1], client_sizes < mean)
        counts[c] = apportion(row, np.array([size]), rng)[0]
        client_sizes += counts[c]
    return counts


def _renormalised(shares: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    """Zero the columns that are not allowed and rescale each row to sum to 1.

    With a small alpha, all allowed entries of a row can be 0; the row becomes uniform.
    """
    kept = shares * allowed
    total = kept.sum(axis=1, keepdims=True)
    even = np.broadcast_to(allowed / allowed.sum(), kept.shape)
    return np.where(total > 0, kept / np.where(total > 0, total, 1), even)


def dirichlet_client(
    data: LabelSet,
    clients: int,
    rng: Rng,
    *,
    concentration: float,
    with_replacement: bool,
) -> Parts:
    """Draw each client's class mix from Dir(beta), beta the concentration.

    All clients have equal sizes. Without replacement, all examples are used: the share
    of an exhausted class goes to the client's other classes in proportion.
    """
    order, sizes = group_by_class(data, rng)
    mixes = rng.dirichlet(np.full(len(sizes), concentration), size=clients)
    totals = even_sizes(data.examples, clients)
    if not with_replacement:
        counts = _counts_without_replacement(mixes, totals, sizes, rng)
        return split_by_counts(order, sizes, counts.T)
    counts = rng.multinomial(totals, mixes)  # (clients, classes)
    drawn = np.repeat(np.tile(np.arange(len(sizes)), clients), counts.ravel())
    starts = np.cumsum(sizes) - sizes
    place = starts[drawn] + rng.integers(0, sizes[drawn])
    owners = np.repeat(np.arange(clients), totals)
    return split_by_owner(order[place], owners, clients)


def _counts_without_replacement(
    mixes: np.ndarray, totals: np.ndarray, sizes: np.ndarray, rng: Rng
) -> np.ndarray:
    """(clients, classes) counts with row sums `totals` and column sums `sizes`.

    All clients draw at once. A class with too few examples is divided at random in
    proportion to the draws, and missing examples are drawn again from the other
    classes. A sequential draw would leave the remains to the last clients.
    """
    counts = np.zeros(mixes.shape, np.int64)
    missing, available = totals.copy(), sizes.copy()
    while missing.any():
        rows, columns = np.flatnonzero(missing), np.flatnonzero(available)
        block = np.ix_(rows, columns)
        mix = _renormalised(mixes[block], np.ones(len(columns), bool))
        drawn = rng.multinomial(missing[rows], mix)
        for c in np.flatnonzero(drawn.sum(axis=0) > available[columns]):
            drawn[:, c] = rng.multivariate_hypergeometric(
                drawn[:, c], available[columns[c]], method="marginals"
            )
        counts[block] += drawn
        missing[rows] -= drawn.sum(axis=1)
        available[columns] -= drawn.sum(axis=0)
    return counts
