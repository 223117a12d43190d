"""sample: which clients take part in a round."""

from typing import Any

from furlkit.cli.shared import command, tell


@command("sample")
def sample(values: dict[str, Any]) -> None:
    """A round's draw depends on the seed and the round alone.

    \b
    Example:
      furlkit sample --clients 0-9 --fraction 0.4 --rounds 1-20 --seed 0
    """
    from furlkit.stages.sample import run

    tell(run(values))
