"""distill: training on public images, from an ensemble or another teacher."""

from furlkit.catalogue.entries import Argument, File, Option, Whole, command, group
from furlkit.catalogue.families import TEACHER
from furlkit.catalogue.groups import (
    ANONYMOUS,
    AUGMENTATION,
    EXECUTION,
    GENERAL,
    IN_OUT,
    OPTIMISATION,
    RECORD,
    data_options,
    epochs_option,
    output,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("distill", "Train the server's model on public images, with a teacher.",
    """START is the global model of the last round, or a new model of any architecture. The
    teacher's files, if the teacher has files, precede START. If START is a client's
    model, the result is this client's model too, except with an ensemble or models. After an
    interruption, the same command resumes and ends with the same bytes.

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
      furlkit distill exp/r001/client_*.safetensors exp/r000/global.safetensors \\
          --teacher models --data digits --epochs 5 -o exp/r001/global.safetensors
      furlkit distill exp/r001/global.safetensors exp/r001/client_3.safetensors \\
          --teacher anchor --data digits --epochs 1 -o exp/r001/aligned_3.safetensors
    """,
    Argument("sources",
        File("ensemble|features|checkpoint", "ensemble|probabilities|client|global",
             "received"),
        "[ENSEMBLE|PROBABILITIES|MODEL...]", required=False, several=True),
    Argument("model", File("checkpoint", "start"), "START"),
    group(IN_OUT,
        *data_options("Public images; with an ENSEMBLE, the images given to embed."),
        split_option("train"),
        output("checkpoint"),
        ANONYMOUS,
        RECORD,
    ),
    TEACHER,
    group("Optimisation",
        epochs_option(200, "Epochs over the public images."),
        Option("steps", Whole(1),
               help="Number of steps instead of epochs: a smaller public set then "
                    "trains as long; the last epoch may be incomplete.",
               replaces="epochs"),
        *OPTIMISATION.options,
    ),
    AUGMENTATION,
    EXECUTION,
    GENERAL,
)
