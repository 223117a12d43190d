"""pretrain-align: FedCA's alignment model and its targets."""

from furlkit.cli.shared import stage


@stage("pretrain-align")
def pretrain_align() -> None:
    """The model starts from GLOBAL, has its architecture, and is trained without labels
    (all three are our choice). Its h and z of every public image are computed once, so
    that a step of local-train --align costs one more pass of the client's own network.

    \b
    Example:
      furlkit pretrain-align exp/r000/global.safetensors --data digits --images 300 \\
          --targets-out exp/targets.safetensors -o exp/align.safetensors
    """
