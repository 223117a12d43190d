"""inspect: explain a file."""

from furlkit.cli.shared import stage


@stage("inspect")
def inspect() -> None:
    """
    \b
    Examples:
      furlkit inspect exp/r001/client_0.safetensors
      furlkit inspect --verify exp
      furlkit inspect --outgoing st-mary.safetensors
    """
