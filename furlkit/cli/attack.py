"""attack: a hostile upload, for research."""

from furlkit.catalogue.entries import Argument, Clients, File, Option, command, group
from furlkit.catalogue.families import ATTACK
from furlkit.catalogue.groups import DRY_RUN, IN_OUT, REPLACE, SEED, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("attack", "Turn an honest upload into a hostile upload, for research.",
    """A recipe runs attack between local-train and aggregate, to test how a rule, a check or
    a report handles hostile clients. The output has the header of the honest upload and a
    valid seal, like a file of a hostile client: the file does not show the change. Keep
    hostile files away from real training.

    scale, flip and noise change the update, the upload minus --parent. BatchNorm
    statistics and counters stay unchanged, in the range that aggregate checks. copy sends
    another client's model, or the unchanged global model if --of names the global model.
    alie, ipm, min-max and sybil are for clients that collude: the attackers read the
    KNOWN uploads, all uploads of the round or only the attackers', and send a common
    update. Without --jitter the hostile uploads are copies of each other, and aggregate
    warns about copies. alie stays in the spread of the KNOWN updates, min-max as far from
    the mean as these updates are from each other. Other kinds do not read KNOWN.

    backdoor continues the training of the upload: images with a trigger, a white square
    in the lower right corner, get the h of a target image, other images keep their h.
    The update is then multiplied by --factor. Measure the success by the accuracy of a
    classifier on images with the trigger and the target's label.

    backdoor-rows is for shared rows, as in FedCA: a row that is repeated many times
    becomes a negative for every client.

    With --clients, uploads of the other clients are copied unchanged, so a recipe needs a
    single attack stage.

    \b
    Examples:
      furlkit attack exp/r001/client_3.safetensors --kind scale \\
          --parent exp/r000/global.safetensors -o exp/hostile/client_3.safetensors
      furlkit attack exp/r001/features_3.safetensors --kind backdoor-rows --row 7 \\
          -o exp/hostile/features_3.safetensors
      furlkit attack exp/r001/client_3.safetensors exp/r001/client_*.safetensors \\
          --kind min-max --parent exp/r000/global.safetensors \\
          -o exp/hostile/client_3.safetensors
    """,
    Argument("upload", File("checkpoint|features"), "UPLOAD"),
    Argument("known", File("checkpoint"), "[KNOWN]...", required=False, several=True),
    group(IN_OUT,
        Option("clients", Clients(names=True),
               help="Hostile clients: 0,1, all, or a site's name. Uploads of other clients "
                    "are copied unchanged.", recorded=False, usual="all"),
        output("checkpoint|features"),
    ),
    ATTACK,
    group("General", SEED, DRY_RUN, REPLACE, *VERBOSITY),
)
