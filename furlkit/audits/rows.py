"""Membership and identification by shared rows.

A row that a client shares is the z of an image, of several rounds' models or of a
mixture, perhaps with noise. An attacker with a model computes z of a candidate image and
looks for a row nearby: the nearer the row, the more likely the client has the image.

    u_i      z of candidate i, scaled to length 1                              (n, d)
    r_j      row j, scaled to length 1                                         (m, d)
    sigma    standard deviation of the noise on every number of a row
    L        expected length of u + noise, sqrt(1 + d sigma^2)

Distance alone fails with noise: some noisy rows are near every candidate. The evidence
divides by the probability of a row for any candidate, as likelihood ratios do.
"""

import numpy as np

from furlkit.audits.membership import unit
from furlkit.audits.success import identified

BLOCK = 1024
# sigma for rows without noise: rows of several rounds are not exactly z of one model.
LEAST = 0.005


def nearness(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Negative distance of each z (n, d) to the nearest row (m, d), on the unit sphere."""
    z, rows = unit(z), unit(rows)
    found = [
        (z[start : start + BLOCK] @ rows.T).max(axis=1)
        for start in range(0, len(z), BLOCK)
    ]
    cosine = np.concatenate(found) if found else np.zeros(0)
    return -np.sqrt(np.maximum(2 - 2 * cosine, 0))


def evidence(z: np.ndarray, rows: np.ndarray, sigma: float = 0) -> np.ndarray:
    """Logarithm of mean_j p(r_j | u_i) / p(r_j) for each candidate z_i.

    p(r | u) ~ exp(L r u / sigma^2)        p(r) = mean_i p(r | u_i)
    """
    sigma, (u, r) = max(sigma, LEAST), (unit(z), unit(rows))
    scale = np.sqrt(1 + u.shape[1] * sigma**2) / sigma**2
    fits = scale * (u @ r.T)  # (n, m)
    return _log_mean(fits - _log_mean(fits, axis=0), axis=1)[:, 0]


def _log_mean(x: np.ndarray, axis: int) -> np.ndarray:
    """log(mean(exp(x))) along an axis, which stays with length 1."""
    most = x.max(axis=axis, keepdims=True)
    return most + np.log(np.exp(x - most).mean(axis=axis, keepdims=True))


def identification(
    members: np.ndarray, others: np.ndarray, k: int
) -> tuple[np.ndarray, float]:
    """Chance of each member to be picked among k candidates, and the chance of a guess."""
    return np.array([identified(score, others, k) for score in members]), 1 / k
