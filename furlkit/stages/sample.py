"""sample: draw the clients that take part in each round."""

from typing import Any

from furlkit import console
from furlkit.errors import UsageError
from furlkit.recipes.participants import draw


def run(values: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Draw the clients of each round, independently of other rounds."""
    clients, fraction, seed = (values[key] for key in ("clients", "fraction", "seed"))
    how = {"rounding": values["rounding"]}
    if not 0 < fraction <= 1:
        raise UsageError(f"--fraction {fraction}: expected a value in (0, 1]")
    if len(clients) == 1 and clients[0] > 1:
        console.warn(
            f"--clients {clients[0]}: is the client with this number, who takes part in "
            f"every round; {clients[0]} clients are --clients 0-{clients[0] - 1}"
        )
    drawn = {n: draw(clients, fraction, seed, n, **how) for n in values["rounds"]}
    line = "\n".join(
        f"{number}/{client}" for number, clients in drawn.items() for client in clients
    )
    return line, {"rounds": drawn}
