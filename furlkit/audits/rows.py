"""Membership and identification by shared rows.

A row that a client shares is the z of an image, of several rounds' models or of a
mixture. An attacker with a model computes z of a candidate image and looks for a row
nearby: the nearer the row, the more likely the client has the image.
"""

import numpy as np

from furlkit.audits.membership import unit
from furlkit.audits.success import identified

BLOCK = 1024


def nearness(z: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Negative distance of each z (n, d) to the nearest row (m, d), on the unit sphere."""
    z, rows = unit(z), unit(rows)
    found = [
        (z[start : start + BLOCK] @ rows.T).max(axis=1)
        for start in range(0, len(z), BLOCK)
    ]
    cosine = np.concatenate(found) if found else np.zeros(0)
    return -np.sqrt(np.maximum(2 - 2 * cosine, 0))


def identification(
    members: np.ndarray, others: np.ndarray, k: int
) -> tuple[np.ndarray, float]:
    """Chance of each member to be picked among k candidates, and the chance of a guess."""
    return np.array([identified(score, others, k) for score in members]), 1 / k
