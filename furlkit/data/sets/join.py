"""Join several datasets to one dataset with domains, by the names of classes."""

from collections.abc import Sequence

import numpy as np

from furlkit.data.sets.labels import LabelSet


def joined(sets: Sequence[LabelSet], names: Sequence[str]) -> LabelSet:
    """Join datasets in order; each dataset is a domain with the given name.

    The result has labels if all datasets have labels, and no fingerprint.
    """
    sizes = [one.examples for one in sets]
    labels, class_names = _joined_labels(sets)
    domains = np.repeat(np.arange(len(sets)), sizes)
    return LabelSet(
        ", ".join(names), sum(sizes), labels, domains, class_names, {}, tuple(names),
        groups=_joined_groups(sets),
    )  # fmt: skip


def _joined_groups(sets: Sequence[LabelSet]) -> np.ndarray | None:
    """Groups of all datasets; images of datasets without groups are single groups."""
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
    """Return True if datasets name common classes differently, and so keep numbers.

    The datasets have equal numbers of classes, and no common class name.
    """
    shared = set(sets[0].class_names).intersection(*(one.class_names for one in sets))
    return len({one.classes for one in sets}) == 1 and not shared


def missing_classes(data: LabelSet) -> dict[str, list[str]]:
    """Missing classes of each domain that lacks some classes."""
    found = {}
    if data.labels is not None:
        for domain, positions in data.by_domain().items():
            held = np.bincount(data.labels[positions], minlength=data.classes)
            if not held.all():
                found[domain] = [data.class_names[c] for c in np.flatnonzero(held == 0)]
    return found
