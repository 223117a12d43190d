"""partition: which client holds which images."""

from typing import Any

from furlkit.cli.shared import command, tell


@command("partition")
def partition(values: dict[str, Any]) -> None:
    """Clients share no image, unless --with-replacement says so; the public part, which
    is drawn first, belongs to none of them.

    \b
    Example:
      furlkit partition --data digits --scheme classes --classes-per-client 2 \\
          -o exp/partition.safetensors
    """
    from furlkit.stages.partition import run

    tell(run(values))
