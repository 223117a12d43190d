"""sample: draw the clients that take part in each round."""

from dataclasses import dataclass
from typing import Any

from furlkit.errors import UsageError
from furlkit.inputs.settings import fill
from furlkit.recipes.participants import draw


@dataclass(frozen=True)
class Options:
    """`fraction` of the clients take part, at least one; rounds are counted from 1."""

    clients: tuple[int, ...]
    fraction: float
    rounds: tuple[int, ...]
    seed: int


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw the clients of each round; a round's draw depends on no other round."""
    options = fill(Options, values)
    if not 0 < options.fraction <= 1:
        raise UsageError(f"--fraction {options.fraction}: expected a value in (0, 1]")
    chosen_by = options.clients, options.fraction, options.seed
    drawn = {number: draw(*chosen_by, number) for number in options.rounds}
    line = "\n".join(
        f"{number}/{client}" for number, clients in drawn.items() for client in clients
    )
    return line, {"rounds": drawn}
