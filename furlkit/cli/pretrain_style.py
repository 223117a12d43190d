"""pretrain-style: the style model that a client keeps to itself."""

from furlkit.catalogue.entries import (
    Argument,
    Choice,
    File,
    Flag,
    Number,
    Numbers,
    Option,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import (
    CLIENT,
    EXECUTION,
    GENERAL,
    IN_OUT,
    OPTIMISATION,
    OWN_IMAGES,
    data_options,
    epochs_option,
    output_of_each,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("pretrain-style",
    "Train clients' own style models, which tell images from their Sobel images.",
    """Once, before the first round, for local-train --infusion. A style model has the
    encoder of GLOBAL, with weights of its own, and is trained on the client's images
    without augmentation. It is written to the client's private file, which must not
    leave the client. Without a PARTITION all images of --data are the client's. Killed or
    stopped, the same command resumes.

    \b
    Example:
      furlkit pretrain-style exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r000/private_{client}.safetensors'
    """,
    Argument("partition", File("partition", "partition"), first=True),
    Argument("model", File("checkpoint", "global"), "GLOBAL"),
    group(IN_OUT, CLIENT, *data_options(OWN_IMAGES),
          output_of_each("private", "kept")),
    group("Style model (FedStyle Eq. 2)",
        Option("projector", Numbers(whole=True), (256, 128),
               "Widths of its projector's layers."),
        Option("temperature", Number(above=0), 0.07, "tau of the contrast."),
        Option("reduction", Choice(("mean", "paper")), "mean",
               "Mean over rows and their positives, or the sums as the paper prints "
               "them, which grow with the batch."),
        Option("normalise", Flag(negative=True), True,
               "Divide every z by its length before the contrast; the paper prints "
               "z without.", newer=True),
    ),
    group("Optimisation",
        epochs_option(10, "Epochs E_s; 0 keeps an untrained model.")
            ._replace(kind=Whole(0)),
        *OPTIMISATION.options,
    ),
    EXECUTION,
    GENERAL,
)
