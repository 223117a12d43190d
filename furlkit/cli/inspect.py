"""inspect: explain a file."""

from furlkit.catalogue.entries import Argument, File, Flag, Option, command, group
from furlkit.catalogue.groups import IN_OUT, SIGNERS, VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("inspect", "Explain any file that furlkit wrote.",
    """
    \b
    Examples:
      furlkit inspect exp/r001/client_0.safetensors
      furlkit inspect --verify exp
      furlkit inspect --outgoing st-mary.safetensors
      furlkit inspect --outgoing st-mary.safetensors --audit membership.json
      furlkit inspect --signers allowed_signers global_1.safetensors
    """,
    Argument("paths", File("any"), "FILE...", several=True),
    group(IN_OUT,
        Option("verify", Flag(), False,
               "Check every byte against the content hash, in folders of every file."),
        Option("tensors", Flag(), False, "List every tensor of a large file."),
        Option("outgoing", Flag(), False,
               "Explain which data leave a site with the file, and which data attackers "
               "are known to recover; private files are refused."),
        Option("audit", File("metrics"), (), multiple=True, needs="outgoing",
               recorded=False,
               help="Result of furlkit audit on a FILE, cited instead of the usual orders "
                    "of magnitude; may be repeated."),
        SIGNERS._replace(
            help="Check every byte, and the signature FILE.sig of the client that the "
                 "header names, or of `server`, by this file of OpenSSH."),
    ),
    group("General", *VERBOSITY),
)
