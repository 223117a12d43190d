"""pretrain-align: FedCA's alignment model and targets."""

from furlkit.catalogue.entries import (
    Argument,
    File,
    Objective,
    Option,
    Whole,
    command,
    group,
)
from furlkit.catalogue.families import OBJECTIVE
from furlkit.catalogue.groups import (
    AUGMENTATION,
    EXECUTION,
    GENERAL,
    IN_OUT,
    OPTIMISATION,
    PART,
    data_options,
    epochs_option,
    output,
    split_option,
)
from furlkit.catalogue.installed import exchanges, objectives

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

def _unaided() -> dict[str, Objective]:
    """Objectives that need only images: no labels, no options of an exchange."""
    aided = {option for e in exchanges().values() for option in e.options}
    found = objectives().items()
    return {k: o for k, o in found if not (o.labels or aided & {*o.options})}


COMMAND = command("pretrain-align",
    "Train FedCA's alignment model on public images, and write the targets.",
    """The model starts from GLOBAL, with GLOBAL's architecture, and is trained without labels
    (three choices of ours). h and z of every public image are computed once, so a step of
    local-train --align costs only an additional pass of the client's network.

    \b
    Example:
      furlkit pretrain-align exp/r000/global.safetensors --data digits --images 300 \\
          --targets-out exp/targets.safetensors -o exp/align.safetensors
    """,
    Argument("model", File("checkpoint", "model"), "GLOBAL"),
    group(IN_OUT,
        *data_options("Public images."),
        split_option("train"),
        Option("images", Whole(0), 0,
               "Number of public images, drawn at random; 0 takes every image."),
        *PART,
        Option("targets-out", File("targets", direction="written", last=True),
               help="File for h and z of the images.",
               required=True, recorded=False),
        output("checkpoint"),
    ),
    OBJECTIVE._replace(entries=_unaided),
    group("Optimisation", epochs_option(100, "Epochs."), *OPTIMISATION.options),
    AUGMENTATION,
    EXECUTION,
    GENERAL,
)
