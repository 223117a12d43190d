"""aggregate: what the server makes of the clients' uploads."""

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
from furlkit.catalogue.groups import GENERAL, IN_OUT, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("aggregate",
    "Make one global model, dictionary, ensemble, ... of the clients' uploads.",
    """Checked first: architecture, shapes, types, finite values, round, parent model, and
    that no client counts twice; for an ensemble and for probabilities also that all are
    of the same images, in the same order. The order of the files does not matter. With
    --staleness there may be models of earlier rounds; the result has the parts of the
    newest ones, and each tensor is the mean over those that have it.

    An UPLOAD may be a folder, the inbox of a server. What is no upload of this round is
    left out there with a warning (a private file, a broken one, a link), and the round
    goes on with the others if there are --at-least so many. An upload that changes after
    the check is left out too. Uploads of earlier rounds are skipped without a warning, and
    clients of the last earlier round without an upload in this one are named. Hidden
    names are skipped. Once the output is there, the round is closed, whatever arrives
    later.

    What an upload says of itself is a claim. Its hash is compared with its bytes, unless
    --trust-headers. --max-upload limits rows and similarities by their header, before
    they are read; models are compared with --parent or with each other. --partition or --max-share limits what its number of images counts.
    Refused with the tensor's name are BatchNorm variances and counters below 0, counters
    near their type's limit, and numbers beyond 10,000 times those of the others. Named by
    a warning are a share more than halfway from an equal one to 1, the numbers of another
    client (BatchNorm's statistics do not count), other options or partitions than most,
    rows that repeat each other (more than 1 in 10), and such a share of a dictionary or of an ensemble's sums.

    median, trimmed-mean, geometric-median, krum and clip withstand some hostile clients.
    They count all clients alike, since the number of images is a client's own claim;
    --weights examples counts it. Of counters they take the median, the mean the largest.

    The mean warns of an update more than 4 times as long as the median and 5 deviations
    away; a client with more images than the median may move farther by that factor. With
    --parent the mean also warns of an update that points against the others: the mean
    cosine of its angles to the others is below -1/3 of their mean cosine to each other,
    which is above 0.05. Without --parent directions are not compared. Norms and angles
    are estimates from a sketch of each upload, in which all tensors weigh alike, and from
    which a hostile client can hide. Fewer than three uploads are not compared. With --partition a warning lists the clients without an upload; a round of
    some clients only says --at-least N, which makes the warning a plain line.

    fedavgm, fedadam and fedyogi remember: --state-out writes the server's memory, and the
    next round reads the file as --state. The file belongs to the model that was written
    with it, the next --parent; any other combination is refused. The first round has no
    --state. The memory stays at the server.

    The model of round 0 has no target network: --parent then has its network in place of
    the target's, as objectives start the target.

    With --report, an upload stands out if the norm of its update is more than twice or
    less than half of the median and 5 deviations away (of logarithms, by the median
    absolute deviation); if its update is at more than 90 degrees to those of the others
    and 3 deviations from the median angle; if its BatchNorm statistics are as far from
    the median ones as such a norm; or if it is a copy. Give --parent too: without it
    norms are measured from the geometric median of the uploads, and there are no angles.
    How far an upload moves the result is reported for the mean, and for other rules with
    up to 64 uploads.

    \b
    Examples:
      furlkit aggregate exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --rule dictionary exp/r001/features_*.safetensors \\
          -o exp/r001/dictionary.safetensors
      furlkit aggregate --rule ensemble exp/r001/public_*.safetensors \\
          -o exp/r001/ensemble.safetensors
      furlkit aggregate --rule probabilities exp/r001/public_*.safetensors \\
          -o exp/r001/probabilities.safetensors
      furlkit aggregate inbox --parent global_0.safetensors --at-least 3 --wait 30m \\
          -o global_1.safetensors
      furlkit aggregate --rule krum --assumed-hostile 2 --chosen 8 \\
          exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --report exp/r001/report.json --parent exp/r000/global.safetensors \\
          exp/r001/client_*.safetensors -o exp/r001/global.safetensors
      furlkit aggregate --rule fedadam --parent exp/r001/global.safetensors \\
          --state exp/r001/server.safetensors --state-out exp/r002/server.safetensors \\
          exp/r002/client_*.safetensors -o exp/r002/global.safetensors
      furlkit aggregate --rule clip --parent exp/r000/global.safetensors \\
          exp/r001/client_*.safetensors -o exp/r001/global.safetensors
    """,
    Argument("inputs", File("checkpoint|features|similarity", "client", "received"),
        "UPLOAD...", several=True),
    group(IN_OUT, output("checkpoint|features|ensemble")),
    RULE,
    group("All rules",
        Option("at-least", Whole(1), 1,
               "The quorum: exit with 75 if fewer clients have reported. Above 1, an "
               "UPLOAD may be missing.",
               recorded=False),
        Option("wait", Text("TIME"),
               help="Wait so long for uploads to arrive in a folder: 90s, 30m, 2h.",
               recorded=False),
        Option("expect", Whole(1),
               help="Wait no longer once so many clients have reported.",
               usual="those of --at-least", needs="wait", recorded=False),
        Option("parent", File("checkpoint", "parent"),
               help="The global model that this round's clients were given; other "
                    "uploads are refused. clip, l-dawa, fedavgm, fedadam, fedyogi and "
                    "scaffold need it, and --report measures updates from it.",
               recorded=False, metavar="GLOBAL"),
        Option("max-upload", Whole(1), 1000,
               "The most megabytes that rows or similarities of a client may take. "
               "A larger file is refused by its header; in a folder it is left out.",
               recorded=False, metavar="MB"),
        Option("state", File("server", "state", "recalled"),
               help="The server's memory after the last round, which --state-out "
                    "wrote together with --parent; not in the first round.",
               recorded=False, metavar="FILE"),
        Option("state-out", File("server", "state", "kept"),
               help="Where to write the server's memory for the next round; it "
                    "stays at the server. Rules with a memory need it.",
               recorded=False, metavar="FILE"),
        Option("trust-headers", Flag(), False,
               "Do not compare the sha256 in each upload's header with its bytes, "
               "only its checksum, which is faster and finds no forgery.",
               recorded=False),
    ),
    GENERAL.without("seed"),
)
