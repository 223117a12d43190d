"""inspect: explain a file."""

from typing import Any

from furlkit.cli.shared import arguments, command, tell


@command("inspect", arguments("paths", "FILE..."))
def inspect(values: dict[str, Any]) -> None:
    """
    \b
    Example:
      furlkit inspect exp/r001/client_0.safetensors
    """
    from furlkit.stages.inspect import run

    tell(run(values))
