"""sample: draw the clients that take part in each round."""

from typing import Any

from furlkit.errors import UsageError
from furlkit.randomness import numpy_generator


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw the clients of each round; a round's draw depends on no other round."""
    clients, fraction, seed = (values[key] for key in ("clients", "fraction", "seed"))
    if not 0 < fraction <= 1:
        raise UsageError(f"--fraction {fraction}: expected a value in (0, 1]")
    drawn = {n: draw(clients, fraction, seed, n) for n in values["rounds"]}
    line = "\n".join(
        f"{number}/{client}" for number, clients in drawn.items() for client in clients
    )
    return line, {"rounds": drawn}


def draw(
    clients: tuple[int, ...], fraction: float, seed: int, number: int
) -> list[int]:
    """The clients of round `number`, sorted: a fraction of all, but at least one."""
    count = max(1, round(fraction * len(clients)))
    rng = numpy_generator(seed, "sample", number)
    return sorted(rng.choice(clients, count, replace=False).tolist())
