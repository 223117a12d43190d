"""replay: the commands that make a file again."""

from furlkit.cli.shared import argument, stage


@stage("replay", argument("path", "FILE"))
def replay() -> None:
    """A header has the options, the seed and the content of the inputs; the inputs, and
    what they were made from, are looked for in the folder of the run and --among others,
    the images by their fingerprint. Every command reads the files that were found and
    writes below --into; a folder that has one of these files is refused, so that nothing
    is replaced.

    With --run each file that was made again is compared with the one that was found:
    "same bytes", or "same tensors" where only the header differs, or what differs, with
    exit code 1. The bytes are the same with the same versions, threads and instruction
    set; `furlkit inspect` shows those that the journal beside a file has.

    \b
    Examples:
      furlkit replay exp/r001/global.safetensors
      furlkit replay exp/r001/client_0.safetensors --depth 1 --run
      furlkit replay r1.safetensors --data cifar10 --among exp --run --into again
    """
