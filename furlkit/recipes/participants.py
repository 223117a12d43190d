"""Which clients take part in a round."""

import math
from collections.abc import Sequence
from decimal import Decimal

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
    """The clients of round `number`, sorted: a fraction of all, but at least one.

    A phase before the rounds has draws of its own. FedStyle rounds the number of clients
    down (Algorithm 1, line 3); FedAvg, FLESD and FedUSC print a product, which is whole
    in their experiments.
    """
    count = max(1, _share(fraction, len(clients), rounding))
    purpose = f"sample {phase}" if phase else "sample"
    rng = numpy_generator(seed, purpose, number)
    return sorted(rng.choice(clients, count, replace=False).tolist())


def _share(fraction: float, count: int, rounding: str) -> int:
    if rounding == "down":
        # In binary 0.29 of 100 is a little less than 29.
        return math.floor(Decimal(str(fraction)) * count)
    return round(fraction * count)
