"""Array operations shared by all schemes: group, count and divide examples."""

import numpy as np

from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError

Rng = np.random.Generator
Parts = list[np.ndarray]  # sorted indices of every client


def group_by_class(data: LabelSet, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    """Examples ordered by class and shuffled within classes, and the class sizes.

    Classes without examples are left out.
    """
    if data.labels is None:
        raise UsageError(
            f"{data.without_labels}, which this --scheme needs; use iid, volume or file"
        )
    shuffled = rng.permutation(data.examples)
    order = shuffled[stable_order(data.labels[shuffled])]
    sizes = np.bincount(data.labels)
    return order, sizes[sizes > 0]


def stable_order(keys: np.ndarray) -> np.ndarray:
    """Argsort that keeps ties in order; narrow keys get numpy's linear-time sort."""
    if len(keys) and keys.max() < 2**16:
        keys = keys.astype(np.uint16)
    return np.argsort(keys, kind="stable")


def split_by_counts(order: np.ndarray, sizes: np.ndarray, counts: np.ndarray) -> Parts:
    """Give client k counts[c, k] examples of class c; leftover examples are unused.

    `order` is the concatenation of the classes, sizes[c] examples each.
    """
    classes, clients = counts.shape
    left = sizes - counts.sum(axis=1)
    table = np.column_stack([counts, left])  # (classes, clients + 1)
    columns = np.tile(np.arange(clients + 1), classes)
    return split_by_owner(order, np.repeat(columns, table.ravel()), clients)


def split_by_owner(order: np.ndarray, owners: np.ndarray, clients: int) -> Parts:
    """Give example order[i] to client owners[i]; owner number `clients` means unused.

    Examples may occur more than once.
    """
    ends = np.cumsum(np.bincount(owners, minlength=clients + 1)[:clients])
    by_owner = order[stable_order(owners)].astype(np.int64)
    return [np.sort(part) for part in np.split(by_owner, ends)[:clients]]


def even_sizes(total: int, parts: int) -> np.ndarray:
    """Sizes that differ by at most one and sum to `total`, larger sizes first."""
    return total // parts + (np.arange(parts) < total % parts)


def apportion(shares: np.ndarray, totals: np.ndarray, rng: Rng) -> np.ndarray:
    """Convert each row of shares to whole counts that sum to the row's total.

    A count is within one of share x total, and its mean is share x total: one random
    offset per row decides the rounding of the cumulative sums. A fixed rounding would
    favour some clients in every class, which adds up for many classes and small shares.
    """
    ends = np.cumsum(shares, axis=1)
    ends /= ends[:, -1:]
    cuts = np.floor(ends * totals[:, None] + rng.random((len(totals), 1)))
    cuts[:, -1] = totals
    return np.diff(cuts, axis=1, prepend=0).astype(np.int64)
