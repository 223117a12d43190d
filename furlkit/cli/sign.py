"""sign: sign uploads and global models."""

from furlkit.catalogue.entries import Argument, File, Flag, Option, command, group
from furlkit.catalogue.groups import DRY_RUN, IN_OUT, VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("sign", "Sign uploads or global models with an OpenSSH key.",
    """sign writes FILE.sig beside FILE; send both files. `aggregate --signers` accepts an
    upload only with a signature of the site that the upload names. `local-train --signers`
    accepts a global model, a dictionary and every other file of the server only with a
    signature of `server`. `inspect --signers` checks any file and names the signer; for a
    model before embed, give a signers file with the line of `server` alone. A signature
    covers a statement: the content hash, kind, run, round and client of the file. The
    content hash is in the header and covers every byte of the file; sign does not compute
    the hash again. ssh-keygen signs and asks for a passphrase; keys in ssh-agent work, too.
    Sign one upload for each round: aggregate leaves out a site with two different uploads.

    The signers file has a line for each site, and for the server:

    \b
      st-mary namespaces="furlkit" ssh-ed25519 AAAAC3...
      server namespaces="furlkit" ssh-ed25519 AAAAC3...

    --statement prints the statement, to sign and to verify without furlkit:

    \b
      $ furlkit sign --statement FILE | ssh-keygen -Y sign -n furlkit -f KEY > FILE.sig
      $ furlkit sign --statement FILE | ssh-keygen -Y verify -n furlkit \\
          -f allowed_signers -I st-mary -s FILE.sig

    \b
    Examples:
      furlkit sign st-mary.safetensors --key ~/.ssh/id_ed25519
      furlkit sign global_1.safetensors --key server_key
    """,
    Argument("paths", File("any"), "FILE...", several=True),
    group(IN_OUT,
        Option("key", File("key"), help="Private key; or the public key of a key in "
               "ssh-agent.", recorded=False, usual="~/.ssh/id_ed25519"),
        Option("statement", Flag(), False, "Print the statement about a file, and sign "
               "nothing.", recorded=False),
    ),
    group("General", DRY_RUN, *VERBOSITY),
)
