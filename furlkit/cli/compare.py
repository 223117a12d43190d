"""compare: scores of several seeds side by side."""

from furlkit.cli.shared import stage


@stage("compare")
def compare() -> None:
    """
    \b
    Examples:
      furlkit compare --series FedSimCLR=a0.json,a1.json --series FedCA=b0.json,b1.json \\
          --reference FedSimCLR
      furlkit compare --series FedCA=b0.json,b1.json --format latex
    """
