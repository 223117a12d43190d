"""local-train: what a client does in a round."""

from furlkit.cli.shared import argument, stage


@stage("local-train", argument("partition"), argument("model", "GLOBAL"))
def local_train() -> None:
    """Killed or stopped, the same command resumes and ends with the same bytes. Loss,
    throughput and a collapse meter go to a .log.jsonl beside the output.

    \b
    Example:
      furlkit local-train exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r001/client_{client}.safetensors'
    """
