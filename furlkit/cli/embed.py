"""embed: a model's outputs for images, or similarities between them."""

from furlkit.catalogue.entries import (
    CACHE,
    Argument,
    Choice,
    File,
    Flag,
    Number,
    Option,
    command,
    group,
)
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

COMMAND = command("embed",
    "Write a model's outputs for images, or the similarities between them.",
    """FLESD's clients send features or similarities of the public images instead of a
    model, and DS-FL's clients send probabilities of the classes.

    \b
    Examples:
      furlkit embed exp/r003/global.safetensors --data digits --split test \\
          -o exp/r003/features.safetensors
      furlkit embed exp/r001/client_1.safetensors --data digits --share z \\
          --partition exp/partition.safetensors --part public --encoding int8 \\
          -o exp/r001/public_1.safetensors
      furlkit embed exp/r001/client_1.safetensors --data digits \\
          --personal exp/r001/private_1.safetensors -o exp/r001/personal_1.safetensors
    """,
    Argument("model", File("checkpoint", "model"), "CHECKPOINT"),
    group(IN_OUT, *data_options("Images to embed."), split_option("train"), *PART, output("features|similarity")),
    group("Content",
        LAYER._replace(
            second="--share", kind=Choice(("h", "z", "probabilities")),
            help="h, the encoder's output; z, the projector's; or the probabilities "
                 "of the classes by the model's clusters or classifier (DS-FL)."),
        Option("personal", File("private", "private"),
               help="Client's private file with a style model and a generator: write "
                    "h of the personal model, h_c + G(h_c, h_s) (FedStyle Eq. 4).",
               recorded=False, metavar="PRIVATE"),
        Option("style", Flag(), False, "Write h_s of the client's style model alone.",
               needs="personal"),
        Option("similarity", Flag(), False,
               "Write the cosines between the images instead of the outputs."),
        Option("top", Number(above=0, high=100),
               help="Percentage of similarities to keep in a row, the largest.",
               needs="similarity"),
        Option("encoding", Choice(("float32", "float16", "int8")), "float32",
               "Number format; int8 has a scale for each row of features, and steps "
               "of 1/127 for similarities."),
        Option("noise", Number(low=0, high=100), 0.0,
               "Standard deviation of Gaussian noise on every number of the rows, which "
               "are scaled to length 1 before and after; similarities are cosines of the "
               "noisy rows. The noise comes from --secret; models of a simulation, with "
               "clients of a PARTITION, need no secret, and noise by the seed hides "
               "nothing.",
               newer=True),
        Option("secret", File("key", direction=CACHE), metavar="FILE",
               help="Secret of the site, as of local-train --secret: the noise comes from "
                    "the secret. A missing file is created; another secret than the "
                    "existing output's is refused.",
               usual="the seed of the model, for clients of a PARTITION",
               needs="noise", recorded=False),
    ),
    RUNNING,
    GENERAL.without("seed"),
)
