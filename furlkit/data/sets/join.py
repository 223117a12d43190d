"""Several datasets as the domains of one, joined by the names of their classes."""

from collections.abc import Sequence

import numpy as np

from furlkit.data.sets.labels import LabelSet


def joined(sets: Sequence[LabelSet], names: Sequence[str]) -> LabelSet:
    """One dataset of several, in their order: each is a domain of the name given.

    It has labels if all of them have some, and no fingerprint.
    """
    sizes = [one.examples for one in sets]
    labels, class_names = _joined_labels(sets)
    domains = np.repeat(np.arange(len(sets)), sizes)
    return LabelSet(
        ", ".join(names), sum(sizes), labels, domains, class_names, {}, tuple(names),
        groups=_joined_groups(sets),
    )  # fmt: skip


def _joined_groups(sets: Sequence[LabelSet]) -> np.ndarray | None:
    """Groups of all; an image of a dataset without groups is a group of its own."""
    if all(one.groups is None for one in sets):
        return None
    columns, first = [], 0
    for one in sets:
        own = np.arange(one.examples) if one.groups is None else one.groups
        columns.append(own + first)
        first += int(own.max(initial=-1)) + 1
    return np.concatenate(columns)


def _joined_labels(
    sets: Sequence[LabelSet],
) -> tuple[np.ndarray | None, tuple[str, ...]]:
    """Labels in one numbering, joined by class name."""
    if any(one.labels is None for one in sets):
        return None, ()
    columns = [np.asarray(one.labels) for one in sets]
    if joined_by_number(sets) or len({one.class_names for one in sets}) == 1:
        return np.concatenate(columns), sets[0].class_names
    names = sorted(set().union(*(one.class_names for one in sets)))
    number = {name: i for i, name in enumerate(names)}
    renumbered = [
        np.array([number[name] for name in one.class_names])[column]
        for one, column in zip(sets, columns, strict=True)
    ]
    return np.concatenate(renumbered), tuple(names)


def joined_by_number(sets: Sequence[LabelSet]) -> bool:
    """Whether datasets name the same classes differently, and so keep their numbers.

    They have equally many classes, and no name that all of them have.
    """
    shared = set(sets[0].class_names).intersection(*(one.class_names for one in sets))
    return len({one.classes for one in sets}) == 1 and not shared


def missing_classes(data: LabelSet) -> dict[str, list[str]]:
    """The classes without images of each domain that lacks some."""
    found = {}
    if data.labels is not None:
        for domain, positions in data.by_domain().items():
            held = np.bincount(data.labels[positions], minlength=data.classes)
            if not held.all():
                found[domain] = [data.class_names[c] for c in np.flatnonzero(held == 0)]
    return found
