"""partition: which client holds which images."""

from furlkit.cli.shared import stage


@stage("partition")
def partition() -> None:
    """Clients share no image, unless --with-replacement says so; the public part, which
    is drawn first, belongs to none of them.

    \b
    Example:
      furlkit partition --data digits --scheme classes --classes-per-client 2 \\
          -o exp/partition.safetensors
    """
