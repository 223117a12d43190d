"""local-train: what a client does in a round."""

from typing import Any

from furlkit.cli.shared import argument, command, tell


@command("local-train", argument("partition"), argument("model", "GLOBAL"))
def local_train(values: dict[str, Any]) -> None:
    """Killed or stopped, the same command resumes and ends with the same bytes. Loss,
    throughput and a collapse meter go to a .log.jsonl beside the output.

    \b
    Example:
      furlkit local-train exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r001/client_{client}.safetensors'
    """
    from furlkit.stages.local_train import run

    tell(run(values))
