"""The weighted mean of the clients' models (FedAvg)."""

from collections.abc import Iterable, Sequence

import numpy as np

from furlkit.errors import UsageError
from furlkit.weights import weighted_sum


def mean(columns: Iterable[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """FedAvg, FedCA Eq. 2: theta = sum_u |D_u| / sum_i |D_i| * theta_u.

    `columns` is one tensor, or a piece of it, of every client in turn; only one is in
    memory at a time. `shares` are |D_u| / sum_i |D_i|, or any others that sum to 1.
    """
    return weighted_sum(columns, shares)


def shares_of(weights: Sequence[float]) -> list[float]:
    """Weights divided by their sum."""
    total = float(sum(weights))
    if not all(weight >= 0 for weight in weights) or not 0 < total < float("inf"):
        raise UsageError(
            f"--weights: {list(weights)} cannot be shares; each must be at least 0 "
            "and their sum above 0"
        )
    return [weight / total for weight in weights]
