"""Divide a dataset that has no splits of its own, or draw some of its images."""

import numpy as np

from furlkit.data.sets.groups import one_of_each
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


def drawn_positions(
    name: str, positions: np.ndarray, count: int, rng: np.random.Generator
) -> np.ndarray:
    """`count` of the positions, in their order, drawn without regard to classes.

    With the same seed a smaller draw is a part of a larger one.
    """
    if count > len(positions):
        raise UsageError(f"--images {count}: {name} has {len(positions):,}")
    return np.sort(rng.permutation(positions)[:count])


def train_positions(
    data: LabelSet, fraction: float, rng: np.random.Generator
) -> np.ndarray:
    """Which examples are to train on: bool (N); the others are to test on.

    They are drawn within each domain and class: the fraction of its examples, rounded.
    Groups are drawn whole, as if each were one example.
    """
    if data.groups is not None:
        reduced, codes = one_of_each(data, data.groups)
        return train_positions(reduced, fraction, rng)[codes]
    shuffled = rng.permutation(data.examples)
    groups = _groups(data)[shuffled]
    order = np.argsort(groups, kind="stable")
    sizes = np.bincount(groups)
    # The place of each example in its own group, which is in random order.
    places = np.arange(data.examples) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    chosen = np.zeros(data.examples, bool)
    chosen[shuffled[order]] = places < np.repeat(np.rint(fraction * sizes), sizes)
    return chosen


def _groups(data: LabelSet) -> np.ndarray:
    """A number for each domain and class, of every example."""
    groups = np.zeros(data.examples, np.int64)
    for column in (data.domains, data.labels):
        if column is not None:
            groups = groups * (column.max(initial=0) + 1) + column
    return np.unique(groups, return_inverse=True)[1]
