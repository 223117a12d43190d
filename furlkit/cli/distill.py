"""distill: training on public images, from an ensemble or another teacher."""

from furlkit.cli.shared import stage


@stage("distill")
def distill() -> None:
    """START is the global model of the last round, or a new one of any architecture. Before
    it stands the file that a teacher is in, if it is in one. A client's own model stays the
    client's, except with an ensemble. Killed or stopped, the same command resumes and ends
    with the same bytes.

    \b
    Examples:
      furlkit distill exp/r001/ensemble.safetensors exp/r000/global.safetensors \\
          --data digits --epochs 20 -o exp/r001/global.safetensors
      furlkit distill exp/r005/mean.safetensors --teacher self --data digits \\
          --partition exp/partition.safetensors --part public \\
          --randaugment 4,9 --cutout 4 --epochs 5 -o exp/r005/global.safetensors
      furlkit distill exp/r001/probabilities.safetensors exp/r000/global.safetensors \\
          --teacher probabilities --data digits --epochs 5 \\
          -o exp/r001/global.safetensors
    """
