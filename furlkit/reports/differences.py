"""Paired differences: interval over seeds, and noise of the probes.

There are two kinds of noise. Another seed trains another model, and another probe (a
linear head with another seed, or a repeat of finetuning) gives another score of a
model. The score of a model is the mean over probes, so an interval over seeds covers
both kinds. Probe noise shows which differences are too small, even with a single seed.
"""

from collections.abc import Callable, Sequence
from math import fsum, isclose, sqrt
from typing import Any, NamedTuple

import numpy as np

from furlkit.reports.summary import summarise

CONFIDENCE = 0.95
Z = 1.959964  # Quantile of the normal distribution for 95 %.
MOST_SEEDS = 1000  # Nobody trains more.
Probes = Sequence[Sequence[float]]  # For each model, the scores of its probes.


class Interval(NamedTuple):
    """Estimate and interval; a single value has no interval and no level."""

    estimate: float
    low: float | None = None
    high: float | None = None
    level: float | None = None


class Difference(NamedTuple):
    """Difference of n scores from the paired scores of a reference.

    `probe_se`: standard error of the difference caused by probes, None if the files do
    not contain the scores of several probes.
    """

    mean: float
    effect: Interval
    n: int
    interval: str = "t"
    paired_by: str = "position"
    probe_se: float | None = None

    @property
    def includes_zero(self) -> bool | None:
        """True if 0 is inside the interval, None without an interval."""
        low, high = self.effect.low, self.effect.high
        return None if low is None or high is None else low <= 0 <= high

    @property
    def has_no_width(self) -> bool:
        """True if all differences are equal, up to rounding: seeds show no noise."""
        low, high = self.effect.low, self.effect.high
        return low is not None and isclose(low, high or 0, rel_tol=1e-9, abs_tol=1e-12)

    @property
    def probes_alone(self) -> float | None:
        """Largest difference explained by probe noise: two standard errors."""
        return None if self.probe_se is None else 2 * self.probe_se

    @property
    def within_probes(self) -> bool | None:
        """True if the difference is below `probes_alone`, None if unknown."""
        most = self.probes_alone
        return None if most is None else abs(self.effect.estimate) < most

    @property
    def seeds_needed(self) -> int | None:
        """Seeds whose t interval would exclude 0, with this mean and this deviation.

        None for intervals of other kinds, and if more than `MOST_SEEDS` are needed.
        """
        estimate, _, high, _ = self.effect
        if self.interval != "t" or high is None:
            return None
        deviation = (high - estimate) * sqrt(self.n) / t_quantile(self.n)
        counts = range(2, MOST_SEEDS + 1)
        decides = (n for n in counts if t_half(deviation, n) < abs(estimate))
        return next(decides, None)

    @property
    def decisive(self) -> bool:
        """True if the sign of the difference is certain despite the noise.

        The 95 % interval must exclude 0, and the difference must exceed the probe
        noise. An interval of width 0 does not suffice: scores are counts of images, so
        scores of few seeds may agree by chance.
        """
        if (self.effect.level or 0) < CONFIDENCE or self.has_no_width:
            return False
        return not self.includes_zero and not self.within_probes

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        own = self._asdict()
        for name in ("includes_zero", "seeds_needed", "probes_alone", "within_probes"):
            own[name] = getattr(self, name)
        return {**own.pop("effect")._asdict(), **own}

    def ends(self, show: Callable[[float], str]) -> str:
        """Interval for people, +1.00 to +3.00, with the level if not 95 %."""
        _, low, high, level = self.effect
        if low is None or high is None:
            return ""
        other = "" if level == CONFIDENCE else f", {percent(level)}"
        return f"{show(low)} to {show(high)}{other}"

    def text(self, show: Callable[[float], str]) -> str:
        """Difference for people, with interval: +2.00 (+1.00 to +3.00)."""
        ends = self.ends(show)
        return show(self.effect.estimate) + (f" ({ends})" if ends else "")

    @property
    def note(self) -> str:
        """Reservations about the difference, in a few words."""
        level, said = self.effect.level, []
        if level is None:
            said.append("one seed, no interval")
        elif level < CONFIDENCE:
            said.append(f"{self.n} seeds give {percent(level)} at most")
        if self.has_no_width:
            said.append("same difference for every seed")
        if self.includes_zero:
            said.append("interval includes 0")
            if self.interval == "t":
                needed = self.seeds_needed
                about = (
                    f"more than {MOST_SEEDS:,}" if needed is None else f"about {needed}"
                )
                said.append(f"needs {about} seeds")
        if self.within_probes:
            said.append("within probe noise")
        return "; ".join(said)


def percent(level: float | None) -> str:
    """Level of confidence in percent: 95 %, 93.8 %."""
    return f"{100 * (level or 0):.3g} %"


def paired(a: Sequence[float], b: Sequence[float], interval: str = "t") -> Difference:
    """Differences a_i - b_i: mean, and the interval named `interval`.

    Effects of a seed on both methods cancel, so the interval is narrower than the
    deviations of the two means suggest.
    """
    differences = [mine - other for mine, other in zip(a, b, strict=True)]
    mean = summarise(differences).mean
    effect = INTERVALS[interval](differences)
    return Difference(mean, effect, len(differences), interval)


def t_interval(differences: Sequence[float]) -> Interval:
    """Mean with Student's t interval of n - 1 degrees of freedom."""
    mean, std, n = summarise(differences)
    if std is None:
        return Interval(mean)
    half = t_half(std, n)
    return Interval(mean, mean - half, mean + half, CONFIDENCE)


def t_half(deviation: float, n: int) -> float:
    """Half of the width of the t interval of n differences."""
    return t_quantile(n) * deviation / sqrt(n)


def t_quantile(n: int) -> float:
    """Quantile of Student's t distribution for the interval of n differences."""
    # scipy.stats takes twice the time to import.
    from scipy.special import stdtrit

    return float(stdtrit(n - 1, (1 + CONFIDENCE) / 2))


def wilson(share: float, n: int) -> tuple[float, float]:
    """Wilson's 95 % interval of a share of n images."""
    middle, scale = share + Z**2 / (2 * n), 1 + Z**2 / n
    half = Z * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2))
    return (middle - half) / scale, (middle + half) / scale


def wilcoxon_interval(differences: Sequence[float]) -> Interval:
    """Hodges and Lehmann's estimate with the exact interval of the signed-rank test.

    The estimate is the median of the M = n (n + 1) / 2 Walsh averages (d_i + d_j) / 2,
    i <= j; the interval goes from the k-th average to the k-th from the end. The
    interval contains the centre of a symmetric distribution with probability 1 - 2 P(T
    < k), with T the signed-rank statistic. k is the largest number with a probability
    of at least 95 %, or 1 for fewer than 6 values. `level` is the probability attained.
    """
    d = np.asarray(differences, np.float64)
    rows, columns = np.triu_indices(len(d))
    walsh = np.sort((d[rows] + d[columns]) / 2)
    middle = float(np.median(walsh))
    if len(d) == 1:
        return Interval(middle)
    tails = _signed_rank_tails(len(d))  # tails[k - 1] is P(T < k).
    k = max(1, sum(1 - 2 * tail >= CONFIDENCE for tail in tails))
    return Interval(middle, float(walsh[k - 1]), float(walsh[-k]), 1 - 2 * tails[k - 1])


def _signed_rank_tails(n: int) -> list[float]:
    """P(T <= t) for t = 0, 1, ...; T sums a random subset of the ranks 1 to n."""
    # Whole numbers of any size.
    ways = np.array([1] + [0] * (n * (n + 1) // 2), object)
    for rank in range(1, n + 1):
        ways[rank:] = ways[rank:] + ways[:-rank]
    return [int(below) / 2**n for below in np.cumsum(ways)]


INTERVALS: dict[str, Callable[[Sequence[float]], Interval]] = {
    "t": t_interval,
    "wilcoxon": wilcoxon_interval,
}


def probe_std(probes: Probes) -> float | None:
    """Standard deviation over the probes of one model, pooled over models.

    s^2 = sum_m (P_m - 1) s_m^2 / sum_m (P_m - 1), with P_m probes and the sample
    variance s_m^2 of model m. None unless every model has at least two probes.
    """
    if min(map(len, probes), default=0) < 2:
        return None
    squares = (float(len(p) - 1) * float(np.var(np.sort(p), ddof=1)) for p in probes)
    return sqrt(fsum(squares) / sum(len(p) - 1 for p in probes))


def probe_error(probes: Probes) -> float | None:
    """Standard error of a model's mean over its probes, s / sqrt(P).

    For models with different numbers of probes, the root mean square.
    """
    std = probe_std(probes)
    if std is None:
        return None
    return std * sqrt(fsum(1 / len(p) for p in probes) / len(probes))


def difference_error(a: Probes, b: Probes) -> float | None:
    """Standard error of the mean of n paired differences, caused by probes.

    sqrt((e_a^2 + e_b^2) / n), with e the standard errors of `probe_error`: probes of
    different models are independent and do not cancel in a pair.
    """
    mine, other = probe_error(a), probe_error(b)
    if mine is None or other is None:
        return None
    return sqrt((mine**2 + other**2) / len(a))
