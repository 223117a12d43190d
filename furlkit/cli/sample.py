"""sample: draw the clients of a round."""

from furlkit.catalogue.entries import Choice, Clients, Number, Option, command, group
from furlkit.catalogue.groups import GENERAL

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("sample", "Print the clients of each round as ROUND/CLIENT.",
    """The draw for a round depends only on the seed and the round.

    \b
    Example:
      furlkit sample --clients 0-9 --fraction 0.4 --rounds 1-20 --seed 0
    """,
    group("Sampling",
        Option("clients", Clients(), required=True,
               help="Numbers of the clients of the federation: 0-9 for ten clients, or "
                    "1-5,8."),
        Option("fraction", Number(), 1.0,
               "Share of the clients that take part, at least one client."),
        Option("rounding", Choice(("nearest", "down")), "nearest",
               "Rounding of the number of clients: nearest, or (FedStyle) down."),
        Option("rounds", Clients(), (1,), "Rounds to draw clients for: 3, or 1-20."),
    ),
    GENERAL.without("preset", "dry_run", "force"),
)
