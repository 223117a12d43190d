"""distill: FLESD's distillation on public images."""

from furlkit.cli.shared import argument, stage


@stage("distill", argument("ensemble"), argument("model", "START"))
def distill() -> None:
    """START is the global model of the last round, or a new one of any architecture.
    Killed or stopped, the same command resumes and ends with the same bytes.

    \b
    Example:
      furlkit distill exp/r001/ensemble.safetensors exp/r000/global.safetensors \\
          --data digits --epochs 20 -o exp/r001/global.safetensors
    """
