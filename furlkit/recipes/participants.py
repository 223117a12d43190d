"""Draw the clients of a round."""

import math
from collections.abc import Sequence

from furlkit.randomness import numpy_generator

ROUNDINGS = ("nearest", "down")


def draw(
    clients: Sequence[int],
    fraction: float,
    seed: int,
    number: int,
    phase: str = "",
    rounding: str = "nearest",
) -> list[int]:
    """Draw a fraction of the clients for round `number`, at least one client; sorted.

    A phase before the main rounds has separate draws. FedStyle rounds the number of
    clients down (Algorithm 1, line 3); FedAvg, FLESD and FedUSC print a product, a whole
    number in the experiments.
    """
    count = max(1, _share(fraction, len(clients), rounding))
    purpose = f"sample {phase}" if phase else "sample"
    rng = numpy_generator(seed, purpose, number)
    return sorted(rng.choice(clients, count, replace=False).tolist())


def _share(fraction: float, count: int, rounding: str) -> int:
    if rounding == "down":
        # In binary floating point, 0.29 * 100 is slightly less than 29.
        return math.floor(round(fraction * count, 9))
    return round(fraction * count)
