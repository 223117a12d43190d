"""pretrain-style: the style model that a client keeps to itself."""

from furlkit.cli.shared import stage


@stage("pretrain-style")
def pretrain_style() -> None:
    """Once, before the first round, for local-train --infusion. A style model has the
    encoder of GLOBAL, with weights of its own, and is trained on the client's images
    without augmentation. It is written to the client's private file, which must not
    leave the client. Without a PARTITION all images of --data are the client's. Killed or
    stopped, the same command resumes.

    \b
    Example:
      furlkit pretrain-style exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r000/private_{client}.safetensors'
    """
