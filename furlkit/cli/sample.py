"""sample: which clients take part in a round."""

from furlkit.cli.shared import stage


@stage("sample")
def sample() -> None:
    """A round's draw depends on the seed and the round alone.

    \b
    Example:
      furlkit sample --clients 0-9 --fraction 0.4 --rounds 1-20 --seed 0
    """
