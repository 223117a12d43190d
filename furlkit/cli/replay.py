"""replay: the commands that make a file again."""

from furlkit.cli.shared import argument, stage


@stage("replay", argument("path", "FILE"))
def replay() -> None:
    """A header has the options, the seed and the content of the inputs; scores have the
    same. The inputs are looked for in the folder of the planned run; without a plan, in
    the folder of FILE and then in the folder around it; and in those of --among. Images
    are found by their fingerprint. Every command reads the files that were found and
    writes below --into; a folder that has one of these files is refused, so that nothing
    is replaced. Inputs or images that are not found give exit code 65.

    With --run each file that was made again is compared with the one that was found:
    "same bytes", or "same tensors" or "same numbers" where only the header differs, or
    what differs, with exit code 1. The bytes are the same with the same versions, threads
    and instruction set; a difference in these is named, from the journals beside the
    files, and how far the scores are apart.

    \b
    Examples:
      furlkit replay exp/r001/global.safetensors
      furlkit replay exp/r001/client_0.safetensors --depth 1 --run
      furlkit replay exp/r003/linear.json --run
      furlkit replay r1.safetensors --data cifar10 --among exp --run --into again
    """
