"""Privacy cost of noisy sums: epsilon for a delta, over all rounds.

Two lists of uploads are neighbours if one list lacks a client (add or remove one). A round
with noise multiplier z adds Gaussian noise of deviation z C to a sum that a client changes
by at most C; a client joins the round with probability q (Poisson sampling).

    z        --noise: deviation of the noise, in units of the clip norm
    q        --sampling-rate
    alpha    order of Renyi differential privacy (RDP)

RDP of a round, Mironov, Talwar and Zhang, "Renyi Differential Privacy of the Sampled
Gaussian Mechanism", 2019, Eq. 2, and conversion to epsilon, Canonne, Kamath and Steinke,
"The Discrete Gaussian for Differential Privacy", 2020, Proposition 12:

    (alpha - 1) RDP = log E[((1 - q) + q exp((2x - 1) / (2 z^2)))^alpha],  x ~ N(0, z^2)
    epsilon = RDP + log(1 - 1/alpha) - log(delta alpha) / (alpha - 1)

Without sampling, rounds compose to a single Gaussian mechanism with mu^2 = sum 1/z^2, and
epsilon is exact, Balle and Wang, "Improving the Gaussian Mechanism", 2018, Theorem 8:

    delta = Phi(mu/2 - epsilon/mu) - exp(epsilon) Phi(-mu/2 - epsilon/mu)

Sampling never raises epsilon, so the smaller of both numbers holds.
"""

from collections.abc import Sequence
from math import erfc, exp, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np

ORDERS = (
    *(1 + k / 100 for k in range(1, 10)),
    *(1 + k / 10 for k in range(1, 100)),
    *range(11, 64),
    *(64, 80, 96, 128, 192, 256, 512, 1024),
)
# The integrand is negligible REACH deviations away from its peaks; points per deviation.
REACH, FINE = 12, 20
MOST_POINTS = 200_000  # Orders that need more points are skipped: tiny noise.
LARGEST = 700.0  # exp of larger numbers overflows.


class Rounds(NamedTuple):
    """Some rounds with equal noise multiplier and sampling rate."""

    noise: float
    sampling_rate: float
    rounds: int


def epsilon_of(history: Sequence[Rounds], delta: float) -> float:
    """Epsilon of all rounds of a history at `delta`."""
    if any(each.noise <= 0 for each in history):
        return inf
    exact = gaussian_epsilon(history, delta)
    if all(each.sampling_rate == 1 for each in history):
        return exact
    return min(exact, renyi_epsilon(history, delta))


def renyi_epsilon(history: Sequence[Rounds], delta: float) -> float:
    """Smallest epsilon over the orders."""
    costs = [(a, sum(n * renyi(q, z, a) for z, q, n in history)) for a in ORDERS]
    found = [
        cost + log1p(-1 / alpha) - log(delta * alpha) / (alpha - 1)
        for alpha, cost in costs
    ]
    return max(0.0, min(found))


def renyi(q: float, z: float, alpha: float) -> float:
    """RDP of order alpha of one round, by the trapezoidal rule; or infinity.

    The integrand has peaks near 0 and near alpha, and is analytic in a strip of width
    z^2, so the error falls exponentially with the number of points.
    """
    if q == 1:
        return alpha / (2 * z**2)
    step = min(z, z**2) / FINE
    if (alpha + 2 * REACH * z) / step > MOST_POINTS:
        return inf
    x = np.arange(-REACH * z, alpha + REACH * z, step)
    mixed = np.logaddexp(log1p(-q), log(q) + (2 * x - 1) / (2 * z**2))
    terms = alpha * mixed - x**2 / (2 * z**2)
    most = float(terms.max())
    area = float(np.exp(terms - most).sum()) * step / (z * sqrt(2 * np.pi))
    return max(0.0, (most + log(area)) / (alpha - 1))


def gaussian_epsilon(history: Sequence[Rounds], delta: float) -> float:
    """Epsilon of the rounds as if every client joined every round, by bisection."""
    mu = sqrt(sum(n / z**2 for z, _, n in history))
    low, high = 0.0, mu**2 / 2 + mu * sqrt(2 * log(1 / delta))
    if gaussian_delta(mu, low) <= delta:
        return 0.0
    for _ in range(100):
        middle = (low + high) / 2
        if gaussian_delta(mu, middle) > delta:
            low = middle
        else:
            high = middle
    return high


def gaussian_delta(mu: float, epsilon: float) -> float:
    """Delta of a Gaussian mechanism; too large, never too small, for huge epsilons."""
    first = _normal_below(mu / 2 - epsilon / mu)
    second = _normal_below(-mu / 2 - epsilon / mu)
    return first - (exp(epsilon) * second if epsilon < LARGEST else 0.0)


def _normal_below(x: float) -> float:
    """Phi(x), the share of a normal distribution below x."""
    return erfc(-x / sqrt(2)) / 2
