"""replay: the commands that make a file again."""

from furlkit.cli.shared import stage


@stage("replay")
def replay() -> None:
    """Options, seed and content hashes of the inputs are in the header of FILE, or in the
    scores if FILE is JSON. furlkit searches the inputs in the folder of the planned run;
    without a plan, in the folder of FILE, then in the folder around it; and in --among.
    Images are recognised by their fingerprint. The commands write below --into, which
    must not hold FILE or an input. Missing inputs or images give exit code 65.

    With --run, each new file is compared with the old file: "same bytes"; "same tensors"
    or "same numbers" if only the header differs; else the difference, with exit code 1.
    Bytes are the same with the same versions, threads and instruction set. The journals
    beside the files record these; if they differ, the message names both sides, and says
    how far scores are apart.

    \b
    Examples:
      furlkit replay exp/r001/global.safetensors
      furlkit replay exp/r001/client_0.safetensors --depth 1 --run
      furlkit replay exp/r003/linear.json --run
      furlkit replay r1.safetensors --data cifar10 --among exp --run --into again
    """
