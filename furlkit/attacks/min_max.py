"""Min-max: the largest shift of the mean within the spread of the honest updates.

Shejwalkar and Houmansadr, "Manipulating the Byzantine: Optimizing Model Poisoning
Attacks and Defenses for Federated Learning", NDSS 2021: Min-Max, for unknown rules.

    u_i      the updates that the attackers know           (m, n)
    p        direction of the shift                        (n,)
    gamma    length of the shift, over the length of p

    mu + gamma p,  largest gamma with  max_i ||mu + gamma p - u_i|| <= max_ij ||u_i - u_j||

The paper searches for gamma in halving steps. The condition is one quadratic inequality
for each i, so the smallest of the positive roots is the exact gamma.
"""

from collections.abc import Callable

import numpy as np

DIRECTIONS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "deviation": lambda u: -u.std(axis=0),
    "unit": lambda u: -u.mean(axis=0) / max(np.linalg.norm(u.mean(axis=0)), 1e-300),
    "sign": lambda u: -np.sign(u.mean(axis=0)),
}


def min_max(updates: np.ndarray, *, direction: str) -> np.ndarray:
    """Min-Max with the exact gamma; `direction` is the name of p in DIRECTIONS."""
    wide = updates.astype(np.float64)
    mu, p = wide.mean(axis=0), DIRECTIONS[direction](wide)
    return mu + largest_shift(wide, mu, p) * p


def largest_shift(u: np.ndarray, mu: np.ndarray, p: np.ndarray) -> float:
    """Largest gamma: the smallest root of a g^2 + 2 b_i g + c_i = 0 over i.

    a = ||p||^2, b_i = <p, mu - u_i>, c_i = ||mu - u_i||^2 - max_ij ||u_i - u_j||^2 <= 0.
    """
    a = float(p @ p)
    if not a:
        return 0.0
    away = mu - u  # (m, n)
    widest = max(float(np.sum((one - u) ** 2, axis=1).max()) for one in u)
    b, c = away @ p, np.sum(away**2, axis=1) - widest
    roots = (-b + np.sqrt(np.maximum(b**2 - a * c, 0))) / a
    return max(float(roots.min()), 0.0)
