"""distill: training on public images, from an ensemble or another teacher."""

from furlkit.catalogue.entries import Argument, File, Option, Whole, command, group
from furlkit.catalogue.families import TEACHER
from furlkit.catalogue.groups import (
    AUGMENTATION,
    EXECUTION,
    GENERAL,
    IN_OUT,
    OPTIMISATION,
    data_options,
    epochs_option,
    output,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("distill", "Train the server's model on public images, as a teacher says.",
    """START is the global model of the last round, or a new one of any architecture. Before
    it stands the file that a teacher is in, if it is in one. A client's own model stays the
    client's, except with an ensemble. Killed or stopped, the same command resumes and ends
    with the same bytes.

    \b
    Examples:
      furlkit distill exp/r001/ensemble.safetensors exp/r000/global.safetensors \\
          --data digits --epochs 20 -o exp/r001/global.safetensors
      furlkit distill exp/r005/mean.safetensors --teacher self --data digits \\
          --partition exp/partition.safetensors --part public \\
          --randaugment 4,9 --cutout 4 --epochs 5 -o exp/r005/global.safetensors
      furlkit distill exp/r001/probabilities.safetensors exp/r000/global.safetensors \\
          --teacher probabilities --data digits --epochs 5 \\
          -o exp/r001/global.safetensors
    """,
    Argument("sources",
        File("ensemble|features", "ensemble|probabilities", "received"),
        "[ENSEMBLE|PROBABILITIES]", required=False, several=True),
    Argument("model", File("checkpoint", "start"), "START"),
    group(IN_OUT,
        *data_options("The public images; with an ENSEMBLE, those that embed was "
                      "given."),
        split_option("train"),
        output("checkpoint"),
    ),
    TEACHER,
    group("Optimisation",
        epochs_option(200, "Epochs over the public images."),
        Option("steps", Whole(1),
               help="Steps, which need not end with an epoch, in place of epochs: "
                    "a smaller public set then trains no less.", replaces="epochs"),
        *OPTIMISATION.options,
    ),
    AUGMENTATION,
    EXECUTION,
    GENERAL,
)
