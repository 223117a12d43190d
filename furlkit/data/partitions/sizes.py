"""Dealing examples out to clients by whole-array steps, shared by all schemes."""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Grouped:
    """Examples ordered by class, shuffled inside each class.

    Class c is order[starts[c]:starts[c] + sizes[c]]; classes without examples are
    left out, and `classes` holds the labels of those that remain.
    """

    order: np.ndarray
    sizes: np.ndarray
    starts: np.ndarray
    classes: np.ndarray


def group_by_class(labels: np.ndarray, rng: np.random.Generator) -> Grouped:
    """Shuffle the examples, then order them by class."""
    shuffled = rng.permutation(len(labels))
    order = shuffled[stable_order(labels[shuffled])]
    counts = np.bincount(labels)
    classes = np.flatnonzero(counts)
    sizes = counts[classes]
    return Grouped(order, sizes, np.cumsum(sizes) - sizes, classes)


def stable_order(keys: np.ndarray) -> np.ndarray:
    """Argsort that keeps ties in order; narrow keys get numpy's linear-time sort."""
    if len(keys) and keys.max() < 2**16:
        keys = keys.astype(np.uint16)
    return np.argsort(keys, kind="stable")


def deal_counts(
    order: np.ndarray, sizes: np.ndarray, counts: np.ndarray
) -> list[np.ndarray]:
    """Give client k counts[c, k] examples of class c; what is left goes to nobody.

    `order` holds the classes end to end, sizes[c] examples each.
    """
    classes, clients = counts.shape
    left = sizes - counts.sum(axis=1)
    table = np.column_stack([counts, left])  # (classes, clients + 1)
    takers = np.tile(np.arange(clients + 1), classes)
    return deal_owners(order, np.repeat(takers, table.ravel()), clients)


def deal_owners(
    order: np.ndarray, owners: np.ndarray, clients: int
) -> list[np.ndarray]:
    """Give example order[i] to client owners[i]; owner `clients` is nobody.

    Examples may occur more than once. Every client's indices come out sorted.
    """
    ends = np.cumsum(np.bincount(owners, minlength=clients + 1)[:clients])
    dealt = order[stable_order(owners)].astype(np.int64)
    return [np.sort(part) for part in np.split(dealt, ends)[:clients]]


def even_sizes(total: int, parts: int) -> np.ndarray:
    """Sizes that differ by one at most and sum to `total`, larger ones first."""
    return total // parts + (np.arange(parts) < total % parts)


def apportion(
    shares: np.ndarray, totals: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Turn each row of shares into whole counts that sum to that row's total.

    A count is within one of share x total and equals it on average: the cuts along
    a row are rounded from one random offset. A fixed rounding would favour the same
    clients in every class and add up where classes are many and shares small.
    """
    ends = np.cumsum(shares, axis=1)
    ends /= ends[:, -1:]
    cuts = np.floor(ends * totals[:, None] + rng.random((len(totals), 1)))
    cuts[:, -1] = totals
    return np.diff(cuts, axis=1, prepend=0).astype(np.int64)
