"""sample: which clients take part in a round."""

from furlkit.catalogue.entries import Choice, Clients, Number, Option, command, group
from furlkit.catalogue.groups import GENERAL

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("sample", "Print which clients take part in which round, as ROUND/CLIENT.",
    """A round's draw depends on the seed and the round alone.

    \b
    Example:
      furlkit sample --clients 0-9 --fraction 0.4 --rounds 1-20 --seed 0
    """,
    group("Sampling",
        Option("clients", Clients(), help="Which clients there are: 0-9, or 1-5,8.",
               required=True),
        Option("fraction", Number(), 1.0,
               "Share of the clients that takes part, at least one client."),
        Option("rounding", Choice(("nearest", "down")), "nearest",
               "If that is no whole number of clients: the nearest, or (FedStyle) "
               "the next below."),
        Option("rounds", Clients(), (1,), "Rounds to draw for: 3, or 1-20."),
    ),
    GENERAL.without("preset", "dry_run", "force"),
)
