"""replay: the commands that make a file again."""

from furlkit.catalogue.entries import (
    Argument,
    Data,
    File,
    Flag,
    Option,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import DATA_FILES, IN_OUT, VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("replay", "Print or run the commands that make a file again.",
    """Options, seed and content hashes of the inputs are in the header of FILE, or in the
    scores if FILE is JSON. furlkit searches for the inputs in the folder of the planned
    run; without a plan, in the folder of FILE, then in the parent folder; and in --among.
    Images are recognised by a fingerprint. The commands write below --into, which must
    not contain FILE or an input. Missing inputs or images give exit code 65. The record
    of a published file (aggregate --record) must be in a searched folder.

    With --run, each new file is compared with the old file: "same bytes"; "same tensors"
    or "same numbers" if only the header differs; else the difference, with exit code 1.
    Equal versions, threads and instruction sets give equal bytes. The journals beside the
    files record these; if the records differ, the message names both sides and the
    distance of the scores.

    \b
    Examples:
      furlkit replay exp/r001/global.safetensors
      furlkit replay exp/r001/client_0.safetensors --depth 1 --run
      furlkit replay exp/r003/linear.json --run
      furlkit replay r1.safetensors --data cifar10 --among exp --run --into again
    """,
    Argument("path", File("any"), "FILE"),
    group(IN_OUT,
        Option("among", File("folder"), (),
               "Additional folder to search for inputs; may be repeated.",
               multiple=True, recorded=False, metavar="FOLDER"),
        Option("data", Data(), (),
               "Images to consider, besides digits and packed files in the searched "
               "folders; may be repeated.", multiple=True, recorded=False),
        DATA_FILES[0],
        Option("depth", Whole(1),
               help="Generations to make again: 1 for FILE alone, 2 for FILE and the "
                    "inputs of FILE.", recorded=False, usual="all; 1 for scores"),
        Option("into", File("folder", direction="written"),
               help="Folder for the output.", recorded=False, metavar="FOLDER",
               usual="replay; with --run a temporary folder"),
        Option("secret", File("key"), recorded=False, metavar="FILE",
               help="Secret of the site, for files with draws by a secret (local-train "
                    "--secret)."),
        Option("run", Flag(), False,
               "Run the commands and compare the files.",
               recorded=False),
    ),
    group("General", *VERBOSITY),
)
