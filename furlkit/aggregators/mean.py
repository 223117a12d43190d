"""The weighted mean of the clients' models (FedAvg)."""

from collections.abc import Sequence

from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.errors import UsageError
from furlkit.weights import weighted_sum


def mean(uploads: Uploads) -> Pieces:
    """FedAvg, FedCA Eq. 2: theta = sum_u |D_u| / sum_i |D_i| * theta_u.

    The shares are |D_u| / sum_i |D_i|, or any others that sum to 1.
    """

    def pieces(name: str):
        shares = list(uploads.shares(name))
        return uploads.combine(name, lambda column: weighted_sum(column, shares))

    return pieces


def aged(weight: float, age: int, staleness: float) -> float:
    """ASTW: what a model counts that is `age` rounds old, n_k a^-(t - t_k), a = e/2."""
    return weight * staleness**-age


def shares_of(weights: Sequence[float]) -> list[float]:
    """Weights divided by their sum."""
    total = float(sum(weights))
    if not all(weight >= 0 for weight in weights) or not 0 < total < float("inf"):
        raise UsageError(
            f"--weights: {list(weights)} cannot be shares; each must be at least 0 "
            "and their sum above 0"
        )
    return [weight / total for weight in weights]
