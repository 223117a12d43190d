"""distill: FLESD's distillation on public images."""

from typing import Any

from furlkit.cli.shared import argument, command, tell


@command("distill", argument("ensemble"), argument("model", "START"))
def distill(values: dict[str, Any]) -> None:
    """START is the global model of the last round, or a new one of any architecture.
    Killed or stopped, the same command resumes and ends with the same bytes.

    \b
    Example:
      furlkit distill exp/r001/ensemble.safetensors exp/r000/global.safetensors \\
          --data digits --epochs 20 -o exp/r001/global.safetensors
    """
    from furlkit.stages.distill import run

    tell(run(values))
