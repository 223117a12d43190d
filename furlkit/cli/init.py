"""init: the model that every client starts from."""

from furlkit.cli.shared import stage


@stage("init")
def init() -> None:
    """It has the heads that --objective trains, and those of each --head.

    \b
    Example:
      furlkit init --data digits --encoder cnn5 --width 0.25 -o exp/r000/global.safetensors
    """
