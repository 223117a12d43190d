"""inspect: explain a file."""

from furlkit.cli.shared import arguments, stage


@stage("inspect", arguments("paths", "FILE..."))
def inspect() -> None:
    """
    \b
    Example:
      furlkit inspect exp/r001/client_0.safetensors
    """
