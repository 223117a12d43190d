"""Which clients take part in a round."""

from collections.abc import Sequence

from furlkit.randomness import numpy_generator


def draw(
    clients: Sequence[int], fraction: float, seed: int, number: int, phase: str = ""
) -> list[int]:
    """The clients of round `number`, sorted: a fraction of all, but at least one.

    A phase before the rounds has draws of its own.
    """
    count = max(1, round(fraction * len(clients)))
    purpose = f"sample {phase}" if phase else "sample"
    rng = numpy_generator(seed, purpose, number)
    return sorted(rng.choice(clients, count, replace=False).tolist())
