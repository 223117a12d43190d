"""embed: a model's outputs for images, or similarities between them."""

from furlkit.catalogue.entries import (
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
    """FLESD's clients send features or similarities of the public images in place of their
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
    group(IN_OUT, *data_options("The images to embed."), split_option("train"), *PART, output("features|similarity")),
    group("What is written",
        LAYER._replace(
            second="--share", kind=Choice(("h", "z", "probabilities")),
            help="h, the encoder's output; z, the projector's; or the probabilities "
                 "of the classes by the model's clusters or classifier (DS-FL)."),
        Option("personal", File("private", "private"),
               help="A client's private file: h of its personal model, h_c + G(h_c, "
                    "h_s), with the style model and the generator that it keeps "
                    "(FedStyle Eq. 4).", recorded=False, metavar="PRIVATE"),
        Option("style", Flag(), False, "h_s alone, by the client's style model.",
               needs="personal"),
        Option("similarity", Flag(), False,
               "Write the cosines between all images instead."),
        Option("top", Number(above=0, high=100),
               help="Keep this many percent of each row, the largest.",
               needs="similarity"),
        Option("encoding", Choice(("float32", "float16", "int8")), "float32",
               "How numbers are written; int8 has a scale for each row of "
               "features, and steps of 1/127 for similarities."),
    ),
    RUNNING,
    GENERAL.without("seed"),
)
