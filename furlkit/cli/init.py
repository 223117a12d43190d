"""init: the model that every client starts from."""

from typing import Any

from furlkit.cli.shared import command, tell


@command("init")
def init(values: dict[str, Any]) -> None:
    """It has the heads that --objective trains, and those of each --head.

    \b
    Example:
      furlkit init --data digits --encoder cnn5 --width 0.25 -o exp/r000/global.safetensors
    """
    from furlkit.stages.init import run

    tell(run(values))
