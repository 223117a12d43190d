"""A Little Is Enough: a shift that hides in the spread of honest updates.

Baruch et al., "A Little Is Enough: Circumventing Defenses For Distributed Learning",
NeurIPS 2019: the attack that prevents convergence.

    u_i      the updates that the attackers know                            (m, n)
    N, f     clients, hostile clients; the paper's n and m
    s        honest clients that must lie farther out than the attackers
    z        deviations between the mean and the hostile update
"""

from statistics import NormalDist

import numpy as np

from furlkit.errors import UsageError


def alie(updates: np.ndarray, *, factor: float) -> np.ndarray:
    """mean_j + z deviation_j for every number j; `factor` is z.

    The deviation is the sample's, with the divisor m - 1; 0 for a single update.
    """
    wide = updates.astype(np.float64)
    spread = wide.std(axis=0, ddof=1) if len(wide) > 1 else np.zeros(wide.shape[1])
    return wide.mean(axis=0) + factor * spread


def largest_z(clients: int, hostile: int) -> float:
    """Largest z with Phi(z) < (N - f - s) / (N - f).

    s = floor(N / 2 + 1) - f. With few attackers z is 0, and the attack sends the mean.
    """
    honest = clients - hostile
    s = clients // 2 + 1 - hostile
    if s <= 0 or honest <= 0:
        raise UsageError(
            f"--kind alie: {hostile} of {clients} clients are the majority; give z, "
            "--factor"
        )
    return max(0.0, NormalDist().inv_cdf((honest - s) / honest)) if honest > s else 0.0
