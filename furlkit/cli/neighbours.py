"""neighbours: the nearest images of each image."""

from furlkit.catalogue.entries import Argument, File, command, group
from furlkit.catalogue.exchanges import NEAREST
from furlkit.catalogue.groups import (
    GENERAL,
    IN_OUT,
    LAYER,
    PART,
    RUNNING,
    data_options,
    output,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("neighbours",
    "Write the nearest images of every image by a model's outputs.",
    """Images are compared by cosine, without augmentation and labels. `local-train
    --objective cluster` finds neighbours too, or reads this file with --neighbours-from.

    \b
    Example:
      furlkit neighbours exp/r100/global.safetensors --data digits \\
          --partition exp/partition.safetensors --part 3 -o exp/near_3.safetensors
    """,
    Argument("model", File("checkpoint", "model"), "CHECKPOINT"),
    group(IN_OUT, *data_options("The images."), split_option("train"), *PART, output("neighbours")),
    group("Neighbours", NEAREST, LAYER._replace(default="z")),
    RUNNING,
    GENERAL.without("seed"),
)
