"""Weighted mean of the clients' models (FedAvg)."""

from collections.abc import Sequence

from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.errors import UsageError
from furlkit.weights import weighted_sum

# Upper limit of rounding errors in sums of shares.
EPSILON = 1e-9


def mean(uploads: Uploads) -> Pieces:
    """FedAvg, FedCA Eq. 2: theta = sum_u |D_u| / sum_i |D_i| * theta_u.

    The shares are |D_u| / sum_i |D_i|, or any shares with the sum 1.
    """

    def pieces(name: str):
        shares = list(uploads.shares(name))
        return uploads.combine(name, lambda column: weighted_sum(column, shares))

    return pieces


def aged(weight: float, age: int, staleness: float) -> float:
    """ASTW: weight of a model `age` rounds old, n_k a^-(t - t_k), a = e/2."""
    return weight * staleness**-age


def shares_of(weights: Sequence[float]) -> list[float]:
    """Weights divided by their sum."""
    total = float(sum(weights))
    if not all(weight >= 0 for weight in weights) or not 0 < total < float("inf"):
        raise UsageError(
            f"--weights: {list(weights)} cannot be shares; every weight must be at "
            "least 0 and the sum above 0"
        )
    return [weight / total for weight in weights]


def limited(shares: Sequence[float], most: float) -> list[float]:
    """Limit shares to `most`; equal shares if `most` is below 1 / n.

    The excess goes to the remaining clients in proportion to their shares, which may
    reach the limit in turn. Clients with the share 0 get no excess.
    """
    found, most = list(shares), max(most, 1 / len(shares))
    full: set[int] = set()
    while over := {k for k, p in enumerate(found) if p > most * (1 + EPSILON)} - full:
        full |= over
        rest = sum(p for k, p in enumerate(found) if k not in full)
        if rest <= 0:
            return shares_of([float(k in full) for k in range(len(found))])
        left = (1 - most * len(full)) / rest
        found = [most if k in full else p * left for k, p in enumerate(found)]
    return found


def dominant(shares: Sequence[float]) -> int | None:
    """Index of a share above (1 + 1/n) / 2; None if there is no such share."""
    largest = max(range(len(shares)), key=shares.__getitem__)
    bound = (1 + 1 / len(shares)) / 2
    return largest if len(shares) > 1 and shares[largest] > bound else None
