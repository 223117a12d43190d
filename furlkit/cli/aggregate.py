"""aggregate: combine the clients' uploads at the server."""

from furlkit.catalogue.entries import (
    Argument,
    File,
    Flag,
    Option,
    Text,
    Whole,
    command,
    group,
)
from furlkit.catalogue.families import RULE
from furlkit.catalogue.groups import (
    ANONYMOUS,
    GENERAL,
    IN_OUT,
    RECORD,
    SIGNERS,
    output,
)
from furlkit.catalogue.installed import rules, rules_that


def _kinds(field: str) -> str:
    """Kinds of files that the rules read or write, with the rules of plugins."""
    kinds = (getattr(rule, field).split("|") for rule in rules().values())
    return "|".join(dict.fromkeys(kind for some in kinds for kind in some))


# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("aggregate",
    "Combine the clients' uploads: a global model, a dictionary, an ensemble, ...",
    """aggregate first checks architecture, shapes, types, finite values, round and parent
    model, and refuses two uploads of a client. Rows for an ensemble or for probabilities
    must describe the same images in the same order. The order of the files does not
    matter. --staleness also accepts models of earlier rounds: the result has the parts of
    the newest models, and a tensor is the mean over the models that contain the tensor.

    An UPLOAD may be a folder, the inbox of a server. A private file, a broken file, a
    link or an upload that changes after the check is left out with a warning, and the
    round goes on if --at-least clients remain. Uploads of earlier rounds are skipped
    without a warning; clients of the last earlier round without an upload in this round
    are listed. Hidden names are skipped. Once the output exists, the round is closed, and
    later uploads are ignored.

    Everybody who can write into an inbox can upload in any name. --signers accepts an
    upload only with a signature of the client that the header names; the signature covers
    the run, the round and every byte. --members, and --weights FILE, accept the listed
    names without a signature, for folders of trusted writers. --at-least and --expect
    count members only. weight= in the members file replaces --weights for models.

    The header of an upload is a claim of the client. The hash in the header must match
    the bytes, unless --trust-headers. --max-upload limits the size of rows and
    similarities, by the header alone; models must match --parent or the other models.
    --partition or --max-share limits the weight of a claimed number of images; three or
    more clients without a partition have at most half of the weight each. aggregate
    refuses, with the tensor's name: BatchNorm variances and counters below 0, counters
    near the limit of their type, and values above 10,000 times the other clients' values.
    aggregate warns about: a weight above the middle between an equal share and 1; tensors
    equal to another client's (except BatchNorm statistics); options or partitions that
    differ from most uploads; more than 1 in 10 duplicate rows; and a client with such a
    large share of a dictionary or of an ensemble's sums.

    median, trimmed-mean, geometric-median, krum and clip withstand some hostile clients.
    These rules weight clients equally, because the number of images is a claim;
    --weights examples weights by images. For counters these rules take the median, and
    the mean takes the maximum.

    The mean warns about an update that is more than 4 times as long as the median and 5
    deviations away; for a client with more images than the median, the limit grows in
    proportion. With --parent the mean also warns about an update against the others: the
    mean cosine with the other updates is below -1/3 of the other updates' mean cosine,
    which must exceed 0.05. Updates with cosines above 0.9, unlike the other updates, are
    named as nearly the same: copies, sybils or attackers that collude. If two groups of
    more than a third of the clients each work against each other, aggregate names both
    groups and no single client: updates do not show which group is hostile. Without
    --parent directions are not compared, and a line says so: uploads do not contain the
    model from which they started. Norms and angles are estimated from a sketch of each
    upload with equal weight for every tensor; a hostile client can evade the estimate, and attackers that stay within the spread of honest updates, with noise
    (attack --kind alie, min-max), are not found. Fewer than three uploads are not
    compared. With --partition a warning lists the clients without an upload; with
    --at-least N the list is a plain line, not a warning.

    Some rules have a memory: --state-out writes the server's memory, and the next round
    reads the file as --state. The file belongs to the model of the same run of aggregate,
    the next --parent; any other combination is refused. The first round has no --state.
    The memory stays at the server.

    An output for sites (clients that trained without a PARTITION) leaves out names,
    hashes of uploads, shares and numbers of images, of single sites and in total; rows of
    a dictionary are in an order that depends on the rows alone, without owners. Exception: a site with fewer
    images than rows sends a row for each image, and the size of the dictionary then tells
    the number of images; a warning names the site. The header has the parent, the
    round, the run and a hash. The whole header goes to --record, which stays at the
    server; replay, ledger and report read the record. Keep the record out of folders that
    sites can read. --named publishes the whole header.

    masked-sum adds models of `furlkit mask upload`: the server sees only the sum. Every
    site of the keys must report; a missing site voids the round. The server cannot check
    a single upload: no robust rule, --report or warning about clients applies, and a
    single site can shift the result. Signatures and --members work. Counters are rounded
    means.

    --rule clip --noise Z gives each client differential privacy against everybody who
    sees the global models; the server still sees the uploads. A client changes the sum of
    the updates by at most --clip, and noise of deviation Z times --clip hides the change;
    the sum is divided by --cohort. The header has epsilon at --delta over all rounds since
    init, with and without a single client; replacing a client's upload by another upload
    has up to the epsilon of Z / 2. Noise comes from the operating system: replay is
    impossible, and a second sum of a round in the same folder is refused. The header has no names, hashes,
    shares or counts of clients. BatchNorm statistics are clipped and get noise like
    weights (--clip-statistics), or are left out (--bn keep); counters come from --parent.
    A round after a round without noise is refused. Noise does not cover files other than
    the global model: --report, rows, similarities, uploads.

    The model of round 0 has no target network. Target networks of uploads are then
    compared with the online network of --parent, from which objectives copy the target.

    --report marks an upload if the norm of the update is more than twice or less than half
    of the median and 5 deviations away (of logarithms, by the median absolute deviation);
    if the update is at more than 90 degrees to the other updates and 3 deviations from
    the median angle; if BatchNorm statistics are as far from the median as such a norm;
    or if the upload is a copy, or nearly the same as others. If two groups disagree, as
    above, angles mark no upload, and norms are compared in each group. Also give --parent: otherwise norms are measured from the
    geometric median of the uploads, and the report has no angles. The report shows how
    far an upload moves the result, for the mean always, for other rules with up to 64
    uploads.

    \b
    Examples:
      furlkit aggregate exp/r001/client_*.safetensors --parent exp/r000/global.safetensors \\
          -o exp/r001/global.safetensors
      furlkit aggregate --rule dictionary exp/r001/features_*.safetensors \\
          -o exp/r001/dictionary.safetensors
      furlkit aggregate --rule ensemble exp/r001/public_*.safetensors \\
          -o exp/r001/ensemble.safetensors
      furlkit aggregate --rule probabilities exp/r001/public_*.safetensors \\
          -o exp/r001/probabilities.safetensors
      furlkit aggregate inbox --parent global_0.safetensors --at-least 3 --wait 30m \\
          -o global_1.safetensors
      furlkit aggregate inbox --parent global_0.safetensors --signers allowed_signers \\
          --at-least 3 --wait 30m -o global_1.safetensors
      furlkit aggregate --rule krum --assumed-hostile 2 --chosen 8 \\
          exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --report exp/r001/report.json --parent exp/r000/global.safetensors \\
          exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --rule fedadam --parent exp/r001/global.safetensors \\
          --state exp/r001/server.safetensors --state-out exp/r002/server.safetensors \\
          exp/r002/client_*.safetensors -o exp/r002/global.safetensors
      furlkit aggregate --rule masked-sum --parent global_0.safetensors \\
          masked_*.safetensors -o global_1.safetensors
      furlkit aggregate --rule clip --parent exp/r000/global.safetensors \\
          exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --rule clip --clip 3 --noise 1 --delta 1e-5 --cohort 100 \\
          --parent exp/r000/global.safetensors exp/r001/client_*.safetensors \\
          -o exp/r001/global.safetensors
    """,
    lambda: Argument("inputs", File(_kinds("reads"), "client", "received"), "UPLOAD...",
                     several=True),
    lambda: group(IN_OUT, output(_kinds("writes")), ANONYMOUS, RECORD),
    RULE,
    lambda: group("All rules",
        Option("at-least", Whole(1), 1,
               "Quorum: exit with 75 if fewer clients have reported. Above 1, an "
               "UPLOAD may be missing.",
               recorded=False),
        Option("wait", Text("TIME"),
               help="Longest wait for uploads to arrive in a folder: 90s, 30m, 2h.",
               recorded=False),
        Option("expect", Whole(1),
               help="Number of clients that ends the wait early.",
               usual="as --at-least", needs="wait", recorded=False),
        Option("parent", File("checkpoint", "parent"),
               help="Global model from which this round's clients started; uploads of "
                    "other models, rounds and runs are refused. "
                    f"{rules_that(lambda rule: rule.parent)} need this model, and --report "
                    "measures updates from it.",
               recorded=False, metavar="GLOBAL"),
        Option("members", File("members"),
               help="File with a client on each line, and optionally weight=NUMBER and "
                    "examples=NUMBER, the largest number of images to believe: "
                    "`st-mary examples=5000`. Uploads of others are left out.",
               recorded=False, metavar="FILE"),
        SIGNERS._replace(
            help="OpenSSH's allowed_signers, with the clients' names as principals. "
                 "Uploads without a valid signature FILE.sig of the client that the "
                 "header names are left out; see `furlkit sign`."),
        Option("max-upload", Whole(1), 1000,
               "Size limit for the rows or similarities of a client, in megabytes. A "
               "larger file is refused by its header; in a folder, left out.",
               recorded=False, metavar="MB"),
        Option("state", File("server", "state", "recalled"),
               help="Server's memory after the last round, as --state-out wrote it "
                    "together with --parent; not in the first round.",
               recorded=False, metavar="FILE"),
        Option("state-out", File("server", "state", "kept"),
               help="File for the server's memory, for the next round; stays at the "
                    "server. Required by the rules with a memory: "
                    f"{rules_that(lambda rule: rule.state)}.",
               recorded=False, metavar="FILE"),
        Option("trust-headers", Flag(), False,
               "Check only the checksum of each upload, not the sha256 in the header: "
               "faster, but detects no forgery.",
               recorded=False),
    ),
    GENERAL.without("seed"),
)
