"""Inner-product manipulation: the mean of honest updates, backwards.

Xie et al., "Fall of Empires: Breaking Byzantine-tolerant SGD by Inner Product
Manipulation", UAI 2019.

    u_i        the updates that the attackers know      (m, n)
    epsilon    length of the hostile update over the length of the mean

A small epsilon keeps the hostile updates near the honest updates, so that rules by
distance choose hostile updates; the result then has a negative product with the mean.
"""

import numpy as np


def ipm(updates: np.ndarray, *, factor: float) -> np.ndarray:
    """-epsilon mean_i u_i; `factor` is epsilon."""
    return -factor * updates.mean(axis=0, dtype=np.float64)
