"""attack: a hostile upload, for research."""

from furlkit.catalogue.entries import Argument, Clients, File, Option, command, group
from furlkit.catalogue.families import ATTACK
from furlkit.catalogue.groups import GENERAL, IN_OUT, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("attack", "Make a hostile upload of an honest one, for research.",
    """For research: to find out what a rule, a check or a report does about clients that
    lie, a recipe puts this stage between local-train and aggregate. The file has the
    header of the honest upload and a seal that fits, as a hostile client would write it:
    nothing in it tells that it was changed. Keep such files away from real training.

    scale, flip and noise change the update, which is what the client has added to
    --parent. BatchNorm's statistics and counters stay as they were, in the range that
    aggregate checks. copy sends another client's model, or with the global model in --of
    none of its own. backdoor-rows is for rows that clients share, as FedCA's: one row,
    many times, becomes a negative that all clients flee.

    With --clients the uploads of all others are copied as they are, so that one stage of
    a recipe serves all clients.

    \b
    Examples:
      furlkit attack exp/r001/client_3.safetensors --kind scale \\
          --parent exp/r000/global.safetensors -o exp/hostile/client_3.safetensors
      furlkit attack exp/r001/features_3.safetensors --kind backdoor-rows --row 7 \\
          -o exp/hostile/features_3.safetensors
    """,
    Argument("upload", File("checkpoint|features"), "UPLOAD"),
    group(IN_OUT,
        Option("clients", Clients(names=True),
               help="Clients that attack: 0,1, or a site's name. Uploads of others "
                    "are copied as they are.", recorded=False, usual="all"),
        output("checkpoint|features"),
    ),
    ATTACK,
    GENERAL.without("preset", "force"),
)
