"""compare: scores of several seeds side by side."""

from typing import Any

from furlkit.cli.shared import command, tell


@command("compare")
def compare(values: dict[str, Any]) -> None:
    """
    \b
    Examples:
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --reference FedSimCLR
      furlkit compare --series FedCA=b0.json,b1.json --format latex
    """
    from furlkit.stages.compare import run

    tell(run(values))
