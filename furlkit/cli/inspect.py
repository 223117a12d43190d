"""inspect: explain a file."""

from furlkit.catalogue.entries import Argument, File, Flag, Option, command, group
from furlkit.catalogue.groups import IN_OUT, VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("inspect", "Explain any file of furlkit's.",
    """
    \b
    Examples:
      furlkit inspect exp/r001/client_0.safetensors
      furlkit inspect --verify exp
      furlkit inspect --outgoing st-mary.safetensors
    """,
    Argument("paths", File("any"), "FILE...", several=True),
    group(IN_OUT,
        Option("verify", Flag(), False,
               "Check every byte against the content hash; of a folder, those of "
               "all files below it."),
        Option("tensors", Flag(), False, "List every tensor of a large file."),
        Option("outgoing", Flag(), False,
               "Say what leaves a site with the file, and what is known to be "
               "recoverable from it; private files are refused."),
    ),
    group("General", *VERBOSITY),
)
