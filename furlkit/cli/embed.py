"""embed: a model's outputs for images, or similarities between them."""

from furlkit.cli.shared import stage


@stage("embed")
def embed() -> None:
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
    """
