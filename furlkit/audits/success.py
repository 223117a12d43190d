"""Success of an attack that gives each candidate a score; members should score high.

AUC is the probability that a member scores above another image, 0.5 by chance. TPR at
1 % FPR is the share of members found if at most 1 % of the other images are taken for
members; Carlini et al., "Membership Inference Attacks From First Principles", IEEE S&P
2022, explain why an average over all thresholds hides the certain cases.
"""

from collections.abc import Callable, Sequence
from math import floor
from typing import NamedTuple

import numpy as np

from furlkit.errors import InputError

FPR = 0.01
REPEATS = 1000  # Samples of the bootstrap.
INTERVAL = (2.5, 97.5)  # Percentiles.
MOST_POINTS = 400  # Points of a curve in a file.


class Success(NamedTuple):
    """AUC and TPR at 1 % FPR, each with the 95 % interval of a bootstrap."""

    auc: float
    auc_interval: tuple[float, float]
    tpr: float
    tpr_interval: tuple[float, float]


def auc(members: np.ndarray, others: np.ndarray) -> float:
    """P(member > other) + P(member = other) / 2, over all pairs."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, members, "left")
    above = np.searchsorted(ordered, members, "right")
    return float((below + above).mean() / (2 * len(others)))


def tpr_at(members: np.ndarray, others: np.ndarray, fpr: float = FPR) -> float:
    """Share of members above a threshold that at most a share `fpr` of others exceeds.

    With fewer than 1 / fpr others, no other image may exceed the threshold.
    """
    wrong = floor(fpr * len(others) + 1e-9)
    threshold = np.sort(others)[::-1][wrong]
    return float((members > threshold).mean())


def roc(members: np.ndarray, others: np.ndarray) -> list[list[float]]:
    """Points [FPR, TPR] of all thresholds, from [0, 0] to [1, 1].

    Points inside a straight line are left out, and some points of long curves.
    """
    scores = np.unique(np.concatenate([members, others]))[::-1]
    shares = [
        1 - np.searchsorted(np.sort(values), scores, "left") / len(values)
        for values in (others, members)
    ]
    points = np.concatenate([[[0.0, 0.0]], np.stack(shares, axis=1)])
    turns = np.ones(len(points), bool)
    steps = np.diff(points, axis=0)
    turns[1:-1] = np.abs(_cross(steps[:-1], steps[1:])) > 0
    return _thinned(points[turns]).tolist()


def _cross(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0]


def _thinned(points: np.ndarray) -> np.ndarray:
    """At most MOST_POINTS points: every point of low FPR, some of the remaining."""
    if len(points) <= MOST_POINTS:
        return points
    low = min(int((points[:, 0] <= 2 * FPR).sum()), MOST_POINTS // 2)
    rest = np.linspace(low, len(points) - 1, MOST_POINTS - low).round().astype(int)
    return points[np.concatenate([np.arange(low), rest])]


def measure(
    members: np.ndarray, others: np.ndarray, rng: np.random.Generator
) -> Success:
    """AUC and TPR with intervals; the bootstrap draws members and others anew."""
    check_scores(members, others)
    both = {"auc": auc, "tpr": tpr_at}
    found = {name: f(members, others) for name, f in both.items()}
    samples = _samples(members, others, rng, list(both.values()))
    low, high = np.percentile(samples, INTERVAL, axis=0)
    ends = [(float(a), float(b)) for a, b in zip(low, high, strict=True)]
    return Success(found["auc"], ends[0], found["tpr"], ends[1])


Measure = Callable[[np.ndarray, np.ndarray], float]


def _samples(
    members: np.ndarray,
    others: np.ndarray,
    rng: np.random.Generator,
    measures: Sequence[Measure],
) -> np.ndarray:
    drawn = []
    for _ in range(REPEATS):
        pair = [rng.choice(values, len(values)) for values in (members, others)]
        drawn.append([measure(*pair) for measure in measures])
    return np.array(drawn)  # (REPEATS, measures)


def mean_interval(values: np.ndarray, rng: np.random.Generator) -> tuple[float, float]:
    """95 % interval of a mean, by a bootstrap."""
    places = rng.integers(len(values), size=(REPEATS, len(values)))
    low, high = np.percentile(values[places].mean(axis=1), INTERVAL)
    return float(low), float(high)


def check_scores(members: np.ndarray, others: np.ndarray) -> None:
    """Raise for missing or infinite scores."""
    for name, scores in (("member", members), ("other image", others)):
        if not len(scores):
            raise InputError(f"the audit has no {name} to score")
        if not np.isfinite(scores).all():
            broken = int((~np.isfinite(scores)).sum())
            raise InputError(
                f"{broken} of {len(scores)} scores are NaN or infinite; the model has "
                "diverged"
            )


def identified(member: float, others: np.ndarray, k: int) -> float:
    """Probability that a member has the highest score among k candidates.

    The k - 1 other candidates are drawn from `others` without repeats; candidates with
    equal scores are ordered at random. The probability is exact: C(a, k-1) / C(n, k-1)
    for a of n others below the member.
    """
    n = len(others)
    below = int((others < member).sum())
    equal = int((others == member).sum())
    chances = [_all_from(below + j, n, k - 1) for j in range(equal + 1)]
    return float(np.mean(chances))


def _all_from(a: int, n: int, drawn: int) -> float:
    """C(a, drawn) / C(n, drawn): all drawn candidates are among a of n."""
    if drawn > a:
        return 0.0
    steps = np.arange(drawn)
    return float(np.prod((a - steps) / (n - steps)))
