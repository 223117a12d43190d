"""local-train: what a client does in a round."""

from furlkit.cli.shared import stage


@stage("local-train")
def local_train() -> None:
    """With a PARTITION of one dataset clients are simulated. Without it the client is a
    site, and all images of --data are its own; the server learns of them what --tell says.
    Killed or stopped, the same command resumes and ends with the same bytes. Loss,
    throughput and a collapse meter go to a .log.jsonl beside the output.

    \b
    Examples:
      furlkit local-train exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r001/client_{client}.safetensors'
      furlkit local-train global.safetensors --data photos --client st-mary \\
          -o st-mary.safetensors
    """
