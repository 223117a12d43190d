"""doctor: what this machine offers to a training."""

from furlkit.cli.shared import stage


@stage("doctor")
def doctor() -> None:
    """The versions that decide the bytes of a result, the devices that --device can name,
    their memory, the precisions they compute in, and the CPU's instruction sets for
    --isa. Nothing is written.

    \b
    Example:
      furlkit doctor
    """
