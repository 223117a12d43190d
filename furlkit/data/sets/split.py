"""Divide a dataset without splits, or draw some of the images."""

import numpy as np

from furlkit.data.sets.groups import one_of_each
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


def drawn_positions(
    name: str, positions: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """Draw `count` of the positions, sorted, without regard to classes.

    With an equal seed a smaller draw is a part of a larger draw.
    """
    if count > len(positions):
        raise UsageError(f"--images {count}: {name} has {len(positions):,}")
    return np.sort(rng.permutation(positions)[:count])


def train_positions(
    data: LabelSet, fraction: float, rng: np.random.Generator
) -> np.ndarray:
    """Mask of the training examples: bool (N); the other examples are for tests.

    The draw takes the fraction of the examples, rounded, within each domain and class.
    Groups are drawn whole, like single examples.
    """
    if data.groups is not None:
        reduced, codes = one_of_each(data, data.groups)
        return train_positions(reduced, fraction, rng)[codes]
    shuffled = rng.permutation(data.examples)
    groups = _groups(data)[shuffled]
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    # Position of each example in its group, in random order.
    places = np.arange(data.examples) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.zeros(data.examples, bool)
    chosen[shuffled[order]] = places < np.repeat(np.rint(fraction * sizes), sizes)
    return chosen


def _groups(data: LabelSet) -> np.ndarray:
    """Number of the domain and class of every example."""
    groups = np.zeros(data.examples, np.int64)
    for column in (data.domains, data.labels):
        if column is not None:
            groups = groups * (column.max(initial=0) + 1) + column
    return np.unique(groups, return_inverse=True)[1]
