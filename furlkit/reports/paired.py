"""How far apart two methods are that were run with the same seeds."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95


@dataclass(frozen=True)
class Difference:
    """The mean of n differences and its 95% interval, unknown for a single pair."""

    mean: float
    low: float | None
    high: float | None
    n: int


def paired(a: Sequence[float], b: Sequence[float]) -> Difference:
    """The mean of a_i - b_i with Student's t interval of n - 1 degrees of freedom.

    What a seed does to both of a pair cancels, so that few seeds say more than the
    two means would.
    """
    if len(a) != len(b) or not len(a):
        raise ValueError(f"{len(a)} and {len(b)} values make no pairs")
    # Sorted differences have one mean, to the last bit, whatever the order of pairs.
    differences = np.sort(np.asarray(a, np.float64) - np.asarray(b, np.float64))
    n, mean = len(differences), float(differences.mean())
    if n == 1:
        return Difference(mean, None, None, 1)
    half = _student(n - 1) * float(differences.std(ddof=1)) / n**0.5
    return Difference(mean, mean - half, mean + half, n)


def _student(freedom: int) -> float:
    """How many standard errors the interval reaches to each side."""
    # scipy.stats has it too, and takes twice as long to import.
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + CONFIDENCE) / 2))
