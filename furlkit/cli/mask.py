"""mask: keys of sites, and uploads that only reveal a sum."""

from furlkit.catalogue.entries import (
    Argument,
    Choice,
    File,
    Flag,
    Option,
    Text,
    command,
    command_group,
    group,
)
from furlkit.catalogue.groups import (
    DRY_RUN,
    IN_OUT,
    REPLACE,
    SIGNERS,
    VERBOSITY,
    output,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command_group("mask", "Hide uploads by masks that cancel in the server's sum.",
    command("mask key", "Make the keys of a site for the masked sums of a run.",
        """The public key goes to all other sites; sign the file with `furlkit sign`. The
        secret key stays at the site, is drawn by the operating system, and is never
        replaced without --renew: all sites need the new public key. Keys are valid for one
        run, the run of GLOBAL. A file SECRET.used beside the secret key lists the rounds
        that the site has masked: a site has one key in a run, and no copies of it. Needs the
        package cryptography, furlkit[masks].

        \b
        Example:
          furlkit mask key global_0.safetensors --client st-mary \\
              --secret-out st-mary.secret -o keys/st-mary.safetensors
        """,
        Argument("model", File("checkpoint"), "GLOBAL"),
        group(IN_OUT,
            Option("client", Text("CLIENT"), required=True, recorded=False,
                   help="Name or number of the site."),
            Option("secret-out", File("secret-key", direction="kept"), required=True,
                   recorded=False, help="File for the secret key; stays at the site."),
            Option("renew", Flag(), False, "Replace existing keys.",
                   recorded=False),
            output("public-key", "sent", help="File for the public key."),
        ),
        group("General", DRY_RUN, *VERBOSITY),
    ),
    command("mask upload", "Mask an upload: only the sum over all sites is readable.",
        """Each pair of sites shares a mask, from the keys of both sites, the run, the round
        and the global model; one site adds the mask and the other subtracts it. `aggregate
        --rule masked-sum` adds the masked uploads of all sites, and all masks cancel. A
        single masked upload is random for everybody without the secret keys: send the
        masked upload, and keep UPLOAD. The header has no loss, seed, hash of UPLOAD
        or number of images. 3 to 20 sites take part, in every round, and a missing site
        voids the round.

        KEY... are the public keys of all sites, also of this site, in any order. A server
        that replaces keys can remove the masks: check signatures with --signers, or
        compare the printed hash of the keys with the other sites. The server and all
        other sites together know the upload of a site. The sum is as readable as a mean
        without masks.

        Numbers are rounded to multiples of 2^-32, or of 2^-24 after multiplication by the
        number of images. Larger numbers than 2^24, or 2^32 after multiplication, are
        refused; the sum cannot overflow.

        A site masks one upload in a round, whatever the global model, and a run keeps its
        KEYs: SECRET.used lists the masked uploads. Two uploads with one mask reveal the
        difference, and the sum of all sites minus a sum without dan is dan's model. Be
        suspicious if the server asks for a round again, for new keys, or for a new run
        from the same model, and the new list of keys lacks a site: ask that site.

        \b
        Example:
          furlkit mask upload st-mary.safetensors keys/*.safetensors \\
              --secret st-mary.secret --signers allowed_signers -o masked.safetensors
        """,
        Argument("upload", File("checkpoint"), "UPLOAD"),
        Argument("keys", File("public-key", "key", "received", signer="client"), "KEY...",
                 several=True),
        group(IN_OUT,
            Option("secret", File("secret-key", direction="recalled"), required=True,
                   recorded=False, help="Secret key of this site, of mask key."),
            SIGNERS._replace(
                help="OpenSSH's allowed_signers: every KEY needs a valid signature of the "
                     "site; see `furlkit sign`."),
            Option("weights", Choice(("uniform", "examples")), "uniform",
                   "Weight of the site: 1, or the number of images, which is masked, too. "
                   "All sites choose the same, in every round: two sums with different "
                   "weights give a rough copy of the models of two sites."),
            Option("new-roster", Flag(), False,
                   "Accept other KEYs than in the round before, if a site joins, leaves or "
                   "has a new key. The server subtracts a sum without the site from a sum "
                   "with the site and gets a rough copy of the site's model, an exact copy "
                   "if the models of the other sites have not changed.", recorded=False),
            output("masked", "sent"),
        ),
        group("General", DRY_RUN, REPLACE, *VERBOSITY),
    ),
)
