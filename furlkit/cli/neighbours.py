"""neighbours: the nearest images of each image."""

from furlkit.cli.shared import stage


@stage("neighbours")
def neighbours() -> None:
    """By cosine of un-augmented images; no label is read. `local-train --objective
    cluster` mines the same by itself, or takes the file with --neighbours-from.

    \b
    Example:
      furlkit neighbours exp/r100/global.safetensors --data digits \\
          --partition exp/partition.safetensors --part 3 -o exp/near_3.safetensors
    """
