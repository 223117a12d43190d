"""Uploads that stand out: by length, by direction, or by being copies.

    u_k      the update of client k: w_k - w_g with the parent w_g; otherwise w_k - v, v
             the geometric median of the uploads; without BatchNorm's statistics
    norm     ||u_k||
    stats    distance of BatchNorm's statistics from the coordinate-wise median
    angle    between u_k and the sum of u_j / ||u_j|| over j != k, in degrees; only with
             the parent, since updates from v have no common direction

An upload stands out if

- the logarithm of the norm is more than 5 deviations from the median, and the norm is
  more than twice or less than half of the median norm;
- `stats` exceeds the median by the same two limits;
- the angle is above 90 degrees (the upload works against the others), and more than 3
  deviations above the median;
- another upload is within a millionth of the median norm: a copy.

- with the parent: other uploads are nearly the same, see `groups`.

If two groups of more than a third of the clients each work against each other, nobody
can tell which group is hostile: angles are ignored, and norms and `stats` are compared
in each group.

The deviation is 1.4826 times the median absolute deviation: the standard deviation of a
normal distribution. Up to half of the clients cannot move the deviation. Fewer than
three uploads have no majority, and no upload stands out.
"""

from typing import NamedTuple

import numpy as np

from furlkit.aggregators.distances import (
    distances_from,
    distances_from_median,
    squared_distance_rows,
)
from furlkit.aggregators.geometric_median import weiszfeld
from furlkit.aggregators.groups import (
    AGAINST,
    AGREE,
    MOST,
    Groups,
    alike_groups,
    opposed_groups,
)
from furlkit.aggregators.uploads import Uploads

# Of a sketch: what is said unasked must be plain.
FAR = 4.0
RESOLUTION = 1e-5  # Sketches are of float32: shorter updates are rounding, or copies.
DEVIATIONS = 5.0
FACTOR = 2.0
TURNED = 3.0
COPY = 1e-6
SMOOTHING = EPSILON = 1e-6


class Measured(NamedTuple):
    """Norm, angle and statistics of each update; for a copy, the original's index.

    `opposed`: two groups against each other, or None; `alike`: nearly equal updates.
    """

    norms: np.ndarray
    angles: np.ndarray | None
    statistics: np.ndarray
    copies: list[int | None]
    opposed: Groups | None = None
    alike: Groups = ()


def measured(uploads: Uploads, G: np.ndarray) -> Measured:
    """Measure uploads from the inner products, with the parent first if present."""
    parent, shares = int(uploads.parent), uploads.shares(uploads.names[0])
    if parent:
        _, squares = next(squared_distance_rows(G))
        norms = np.sqrt(squares[0, 1:])
    else:
        norms = distances_from(G, weiszfeld(G, shares, SMOOTHING))
    G = G[parent:, parent:]
    statistics = distances_from_median(uploads, statistics=True)
    copies = _copies(G, float(np.median(norms)))
    if not parent:
        return Measured(norms, None, statistics, copies)
    C = _cosines(norms**2, G)
    opposed, alike = _groups(C)
    angles = _weighted_angles(C, alike) if alike else _angles(norms**2, G)
    alike = [group for group in alike if any(copies[k] is None for k in group)]
    return Measured(norms, angles, statistics, copies, opposed, alike)


def _weighted_angles(C: np.ndarray, alike: Groups) -> np.ndarray:
    """Like `_angles`, from cosines; nearly equal updates have the weight of one."""
    w = _weights(len(C), alike)
    own, sums = np.diagonal(C), C @ w  # <u_k, sum of all>
    others = w @ sums - 2 * w * sums + w**2 * own
    tiny = np.finfo(np.float64).tiny
    cosines = (sums - w * own) / np.sqrt(np.maximum(others, tiny))
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))


def _weights(count: int, alike: Groups) -> np.ndarray:
    """1 for each update, divided by the size of a group of nearly equal updates."""
    weights = np.ones(count)
    for group in alike:
        weights[group] = 1 / len(group)
    return weights


def _groups(C: np.ndarray) -> tuple[Groups | None, Groups]:
    """Return opposed groups and groups of nearly equal updates, of three or more."""
    if not 3 <= len(C) <= MOST:
        return None, []
    return opposed_groups(C), alike_groups(C)


def _cosines(squares: np.ndarray, G: np.ndarray) -> np.ndarray:
    """Cosines between updates, (m, m); empty for more than MOST updates."""
    if len(squares) > MOST:
        return np.empty((0, 0))
    between = np.concatenate([rows for _, rows in squared_distance_rows(G)])
    products = (squares[:, None] + squares[None] - between) / 2
    lengths = np.sqrt(squares[:, None] * squares[None])
    return np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1), 0)


def _angles(squares: np.ndarray, G: np.ndarray) -> np.ndarray | None:
    """Angle of each update to the mean direction of the others; None for one upload.

    `squares`: squared lengths of the updates. An update of length 0 has no direction:
    the cosines are 0.
    """
    if len(squares) < 2:
        return None
    sums, own = np.empty(len(squares)), np.empty(len(squares))
    for rows, between in squared_distance_rows(G):
        products = (squares[rows, None] + squares[None] - between) / 2
        lengths = np.sqrt(squares[rows, None] * squares[None])
        C = np.where(lengths > 0, products / np.where(lengths > 0, lengths, 1), 0)
        sums[rows], own[rows] = C.sum(axis=1), np.diagonal(C, rows.start)
    along = sums - own  # <u_k, sum of the others>, for unit vectors.
    others = sums.sum() - 2 * along - own  # ||sum of the others||^2
    cosines = along / np.sqrt(np.maximum(others, np.finfo(np.float64).tiny))
    return np.degrees(np.arccos(np.clip(cosines, -1, 1)))


def _copies(G: np.ndarray, usual: float) -> list[int | None]:
    """Index of the first equal upload for each upload; None for most uploads."""
    found: list[int | None] = []
    for rows, squares in squared_distance_rows(G):
        same = np.sqrt(squares) <= COPY * usual
        same[np.arange(len(same)), np.arange(rows.start, rows.stop)] = False
        found += [int(row.argmax()) if row.any() else None for row in same]
    return found


def stand_out(found: Measured) -> list[list[str]]:
    """Reasons of each upload: norm, angle, statistics, copy, alike; mostly empty."""
    count = len(found.norms)
    reasons: list[list[str]] = [[] for _ in range(count)]
    if count < 3:
        return reasons
    far = np.abs(_excess_in_groups(found.norms, found.opposed)) > 0
    odd = _excess_in_groups(found.statistics, found.opposed) > 0
    turned, alike = np.zeros(count, bool), {k for group in found.alike for k in group}
    if found.angles is not None and not found.opposed:
        above = found.angles - np.median(found.angles)
        turned = (above > TURNED * _deviation(found.angles)) & (found.angles > 90)
    for k, each in enumerate(reasons):
        each += ["norm"] * bool(far[k]) + ["angle"] * bool(turned[k])
        each += ["statistics"] * bool(odd[k])
        each += ["copy"] * (found.copies[k] is not None)
        each += ["alike"] * (k in alike and found.copies[k] is None)
    return reasons


def _excess(lengths: np.ndarray) -> np.ndarray:
    """Distance of each logarithm beyond the usual range; negative below the range."""
    logarithms = np.log(np.maximum(lengths, np.finfo(np.float64).tiny))
    away = logarithms - np.median(logarithms)
    bound = max(DEVIATIONS * _deviation(logarithms), float(np.log(FACTOR)))
    return np.sign(away) * np.maximum(np.abs(away) - bound, 0)


def _excess_in_groups(lengths: np.ndarray, groups: Groups | None) -> np.ndarray:
    """Like `_excess`; in each of several groups if given, 0 in groups below three."""
    if not groups:
        return _excess(lengths)
    found = np.zeros(len(lengths))
    for group in groups:
        if len(group) >= 3:
            found[group] = _excess(lengths[group])
    return found


def _deviation(values: np.ndarray) -> float:
    return 1.4826 * float(np.median(np.abs(values - np.median(values))))


class Sketched(NamedTuple):
    """Estimates from sketches: norms relative to the median norm, angles and groups.

    Without the parent the angles are 0, and there are no groups.
    """

    ratios: np.ndarray
    angles: np.ndarray
    far: np.ndarray
    against: np.ndarray
    opposed: Groups | None = None
    alike: Groups = ()


def sketched(
    sketches: np.ndarray, parent: np.ndarray | None, examples: np.ndarray
) -> Sketched | None:
    """Find uploads (m, WIDTH) that plainly stand out; None if sketches cannot tell.

    Without the sketch of the parent norms are from the coordinate-wise median. A client
    with more examples than the usual client takes more steps, and so its update may be
    longer by that factor. An upload is far if it is more than FAR times as long as the
    usual one and more than DEVIATIONS away. `_against` has the rule for directions.
    """
    if len(sketches) < 3:
        return None
    origin = np.median(sketches, axis=0) if parent is None else parent
    updates = sketches - origin
    lengths = _row_norms(updates)
    norms = lengths / np.maximum(examples / np.median(examples), 1)
    if not np.median(norms) > RESOLUTION * np.median(_row_norms(sketches)):
        return None
    ratios, m = norms / np.median(norms), len(norms)
    if parent is None:
        return Sketched(ratios, np.zeros(m), _far(norms), np.zeros(m, bool))
    updates /= np.where(lengths > 0, lengths, 1)[:, None]
    opposed, alike = _groups(updates @ updates.T if m <= MOST else np.empty((0, 0)))
    angles, against = _against(updates, _weights(m, alike))
    against &= not opposed
    return Sketched(ratios, angles, _far(norms, opposed), against, opposed, alike)


def _far(norms: np.ndarray, groups: Groups | None = None) -> np.ndarray:
    """Return whether each norm is far above the usual norm, in each group if given."""
    usual = np.full(len(norms), np.median(norms))
    for group in groups or ():
        usual[group] = np.median(norms[group])
    return (_excess_in_groups(norms, groups) > 0) & (norms > FAR * usual)


def _against(units: np.ndarray, w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Angles of updates of length 1 to the sum of the others, and who is against.

        r_k = mean of cos(u_k, u_j) over all j but k, with the weights w_j
        a_k = mean of cos(u_i, u_j) over all pairs of others, with the weights w_i w_j

    Update k is against the others if they agree, a_k > AGREE, and r_k < -AGAINST a_k. An
    update that is sent backwards has r_k of about -a_k.
    """
    total = np.einsum("k,kn->n", w, units, dtype=np.float64)
    weight = w.sum() - w
    own = _row_norms(units) ** 2  # 1, or 0 for an update of length 0.
    sums = units @ total
    along = sums - w * own
    others = np.maximum(total @ total - 2 * w * sums + w**2 * own, 0)  # Squared length.
    twice = (w**2 * own).sum() - w**2 * own  # Pairs of an update with itself.
    pairs = weight**2 - ((w**2).sum() - w**2)
    r, a = along / weight, (others - twice) / np.maximum(pairs, EPSILON)
    cosines = along / np.sqrt(np.maximum(others, np.finfo(np.float64).tiny))
    angles = np.degrees(np.arccos(np.clip(cosines, -1, 1)))
    return angles, (a > AGREE) & (r < -AGAINST * a)


def _row_norms(rows: np.ndarray) -> np.ndarray:
    """The length of each row, without a copy of all rows."""
    return np.sqrt(np.einsum("kn,kn->k", rows, rows, dtype=np.float64))
