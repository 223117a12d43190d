"""Which clients take part in a round."""

from collections.abc import Sequence

from furlkit.randomness import numpy_generator


def draw(clients: Sequence[int], fraction: float, seed: int, number: int) -> list[int]:
    """The clients of round `number`, sorted: a fraction of all, but at least one."""
    count = max(1, round(fraction * len(clients)))
    rng = numpy_generator(seed, "sample", number)
    return sorted(rng.choice(clients, count, replace=False).tolist())
