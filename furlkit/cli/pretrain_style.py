"""pretrain-style: the private style model of a client."""

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
    "Train clients' style models, which tell images from Sobel images.",
    """Run pretrain-style once, before the first round, for local-train --infusion. A style
    model has the encoder architecture of GLOBAL and separate weights, trained on the
    client's images without augmentation. The private file, which must not leave the
    client, contains the style model. Without a PARTITION the client has every image of
    --data. After an interruption, the same command resumes.

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
               "Widths of the projector's layers."),
        Option("temperature", Number(above=0), 0.07, "tau of the contrast."),
        Option("reduction", Choice(("mean", "paper")), "mean",
               "Mean over rows and positives, or the paper's sums, which grow with the "
               "batch."),
        Option("normalise", Flag(negative=True), True,
               "Scale every z to length 1 before the contrast; the paper prints z "
               "unscaled.", newer=True),
    ),
    group("Optimisation",
        epochs_option(10, "Epochs E_s; 0 keeps an untrained model.")
            ._replace(kind=Whole(0)),
        *OPTIMISATION.options,
    ),
    EXECUTION,
    GENERAL,
)
