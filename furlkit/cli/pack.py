"""pack: a dataset in one file."""

from furlkit.cli.shared import arguments, stage


@stage("pack", arguments("sources", "NAME|PATH...", kind=str))
def pack() -> None:
    """Several sources become the domains of one dataset. Folders are decoded block by
    block, so they may be larger than the memory.

    \b
    Examples:
      furlkit pack imagenet/train --image-size 256 -o imagenet.safetensors
      furlkit pack office-home --domain-folders --image-size 224 -o office.safetensors
      furlkit pack mnist svhn usps --image-size 32 --channels 3 -o digit.safetensors
    """
