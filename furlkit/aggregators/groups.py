"""Groups among updates: two groups against each other, and updates that are alike.

    C_ij    cosine of the updates of clients i and j, from the parent     (m, m)

Opposed groups: the signs of C's first eigenvector divide the clients. The division
counts if the mean cosine in both groups is above AGREE, the mean cosine between the groups
is negative, and the smaller group has more than a third of the clients. Cosines do not
show which group is hostile.

Alike: updates with cosines above ALIKE, directly or through others, while the median
cosine of the remaining clients is below APART. Honest clients train on different images
in a random order, and cosines of 0.9 are rare; sybils and colluding attackers often send
one update with a little noise. More noise hides the attackers.
"""

from collections.abc import Sequence

import numpy as np

AGREE, AGAINST = 0.05, 1 / 3  # Mean cosines.
ALIKE, APART = 0.9, 0.5
MOST = 1000  # Largest number of clients whose cosines are compared in pairs.
STEPS = 200

Groups = Sequence[list[int]]


def opposed_groups(C: np.ndarray) -> Groups | None:
    """Return two groups against each other, the larger first; None without groups."""
    ahead = _first_eigenvector(C) > 0
    groups = sorted((np.flatnonzero(ahead), np.flatnonzero(~ahead)), key=len)
    few, many = groups
    if 3 * len(few) <= len(C) or len(few) < 2:
        return None
    within = min(_mean_between_pairs(C[np.ix_(g, g)]) for g in groups)
    across = float(C[np.ix_(few, many)].mean())
    if within <= AGREE or across >= -AGAINST * within:
        return None
    return [many.tolist(), few.tolist()]


def alike_groups(C: np.ndarray) -> Groups:
    """Return groups of updates that are nearly equal, unlike the remaining updates."""
    found, left = [], set(range(len(C)))
    while left:
        group = _linked(C > ALIKE, min(left))
        left -= set(group.tolist())
        others = np.setdiff1d(np.arange(len(C)), group)
        if len(group) > 1 and len(others) and _median_apart(C, others, group) < APART:
            found.append(group.tolist())
    return found


def _first_eigenvector(C: np.ndarray) -> np.ndarray:
    """Eigenvector of the largest eigenvalue, by multiplication; the first is positive."""
    v = C[:, int(np.abs(C).sum(axis=0).argmax())].astype(np.float64)
    for _ in range(STEPS):
        v = C @ v
        v /= max(float(np.linalg.norm(v)), np.finfo(np.float64).tiny)
    return v if v[0] > 0 else -v


def _mean_between_pairs(C: np.ndarray) -> float:
    """Mean outside the diagonal."""
    m = len(C)
    return float((C.sum() - np.trace(C)) / (m * (m - 1)))


def _median_apart(C: np.ndarray, others: np.ndarray, group: np.ndarray) -> float:
    """Median cosine of the other updates to each other and to the group."""
    across = C[np.ix_(others, group)].max(axis=1)
    pairs = C[np.ix_(others, others)][np.triu_indices(len(others), 1)]
    return float(np.median(np.concatenate([across, pairs])))


def _linked(near: np.ndarray, first: int) -> np.ndarray:
    """Clients that are near the first, directly or through others, in order."""
    found, new = {first}, [first]
    while new:
        linked = set(np.flatnonzero(near[new].any(axis=0)).tolist())
        new = sorted(linked - found)
        found |= linked
    return np.array(sorted(found))
