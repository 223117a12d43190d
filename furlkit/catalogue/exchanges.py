"""Exchanges: data that passes between rounds besides the model.

An entry declares the options of an exchange; its `function` is the class that implements
`furlkit.exchanges.exchange.Exchange`. An exchange with a `title` has a group of options of
its own. An objective or a term lists the options of every other exchange.
"""

from furlkit.catalogue.entries import (
    Choice,
    Data,
    Exchange,
    Family,
    File,
    Flag,
    Number,
    Option,
    Personal,
    Whole,
    named,
)
from furlkit.catalogue.papers import (
    APFL,
    DITTO,
    FEDBN,
    FEDCA,
    FEDMATCH,
    FEDSTYLE,
    ORCHESTRA,
    SCAFFOLD,
    SCAN,
    WU,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

DICTIONARY_SIZE = Option("dictionary-size", Whole(1), 1024, "K, its number of rows.")
NEGATIVES = Option("negatives", Choice(("fused", "remote", "local")), "fused",
    "What images are told apart from where a dictionary is given: the client's own images "
    "(batch or queue) and the dictionary (FedCA Eq. 6, FCL Eq. 3), the dictionary alone "
    "(FCL Eq. 5), or its own alone.", newer=True)
# The words of --share-rows, and the description of such rows by inspect.
SHARE_ROWS = {
    "averaged": "",
    "instahide": "features of images encrypted by InstaHide, which has been broken in "
                 "public (Carlini et al. 2021); they are not anonymous",
    "mixup": "features of mixtures of images; they are not anonymous",
    "plain": "features of single images; they are not anonymous",
}


DICTIONARY = Exchange("dictionary", "rows that a client shares, and rows of other clients",
    "furlkit.exchanges.dictionary:Dictionary",
    title="Sharing rows: FedCA's dictionary, FCL's remote features",
    options=(
        Option("dictionary", File("features", "dictionary", "received", per_client=True),
               help="Rows that are negatives for every image, and that --neighbours draws "
                    "images to; aggregate --rule dictionary writes them. May hold {client}, "
                    "if --for made one for each client.", recorded=False),
        Option("leave-own-out", Flag(), False,
               "Leave the client's own rows of the dictionary out."),
        NEGATIVES,
        Option("features-out", File("features", direction="sent", per_client=True),
               help="Where to write the rows that the client shares, ceil(K / m) rows; may "
                    "hold {client}.", recorded=False),
        Option("share-rows", Choice(tuple(SHARE_ROWS)), "averaged",
               "What the rows are: Z, z averaged over rounds (FedCA); z of fresh mixtures of "
               "4 images with random signs (InstaHide, as FCL has it), or of such mixtures "
               "without signs; z of single images. InstaHide has been broken (Carlini et "
               "al. 2021), and features are not anonymous.",
               needs="features-out", newer=True),
        Option("rows-statistics", Choice(("running", "batch")), "running",
               "How BatchNorm normalises the images that rows are computed from: by its "
               "running statistics, as in evaluation; or by their own batch, as MoCo's slow "
               "network does in training, without a change of the running statistics (FCL).",
               needs=f"share-rows={'|'.join([*SHARE_ROWS][1:])}", newer=True),
        Option("alpha", Number(low=0, below=1), 0.5,
               "Z <- alpha Z + (1 - alpha) z; 0 shares z alone (FedCA Eq. 9).",
               needs="share-rows=averaged"),
        DICTIONARY_SIZE._replace(needs="features-out"),
        Option("participants", Whole(1), help="m, the clients of the round.",
               usual="all of the partition", needs="features-out"),
        Option("dictionary-from", Choice(("client", "global")), "client",
               "Which model computes z of the client's images: the client's, after training "
               "(FedCA's Algorithm 1), or the global one it was given (the paper's text, "
               "with --alpha 0). Of MoCo's two networks it is the slow one.", newer=True),
        Option("dictionary-positive", Choice(("view", "own")), "view",
               "The positive against the dictionary: the other view, or the image's own row, "
               "which is that of Z in --private, or with --dictionary-from global the global "
               "model's z (ours, after MoCo's key).", newer=True),
    ),
    paper=FEDCA,
    equation="Eq. 4-10; FCL Eq. 3-6",
)

TARGETS = Exchange("targets", "h and z of public images by a common model",
    "furlkit.exchanges.targets:Targets",
    options=(
        Option("align", File("targets", "targets", "received once"),
               help="h and z of public images by the alignment model, as "
                    "pretrain-align writes them.", recorded=False,
               metavar="TARGETS"),
        Option("align-data", Data(),
               help="The public images that the targets were made from.",
               recorded=False),
        Option("align-split", Choice(("train", "test")), "train",
               "Which split of a dataset known by name.", recorded=False),
    ),
    paper=FEDCA,
    equation="Eq. 11-14",
)

NEAREST = Option("nearest", Whole(1), 20, "Neighbours of each image, by cosine.")

NEIGHBOURS = Exchange("neighbours", "the nearest of the client's own images to each image",
    "furlkit.exchanges.neighbours:NearestImages",
    options=(
        NEAREST._replace(help="Neighbours of each of the client's images; they stay in the "
                              "private file."),
        Option("mine-layer", Choice(("h", "z")), "z",
               "Neighbours are the nearest by cosine of h, the encoder's output, or z, the "
               "projector's."),
        Option("mine-every", Whole(0), 0,
               "Rounds after which a client mines its neighbours again; 0 keeps those of "
               "its private file."),
        Option("neighbours-from", File("neighbours", "neighbours", per_client=True),
               help="Take the neighbours from this file, which the command neighbours wrote; "
                    "may hold {client}.", recorded=False, replaces="mine-layer mine-every"),
    ),
    paper=SCAN,
)

HELPERS = Exchange("helpers", "models of other clients that agree with the client's model",
    "furlkit.exchanges.helpers:Helpers",
    options=(
        Option("helper", File("checkpoint", "helper", "received"), (),
               "An upload of the last round that helpers may be chosen from; may be repeated.",
               multiple=True, recorded=False, variable="helper_files"),
        Option("helpers", Whole(1), 2,
               "H, the other clients whose models help: those whose answers to the same noise "
               "are nearest.", variable="helper_count"),
    ),
    paper=FEDMATCH,
    equation="section 3.2",
)

BANK = Exchange("bank", "a row for each of the client's images",
    "furlkit.exchanges.bank:Bank",
    paper=WU,
)

STYLE = Exchange("style", "the client's style model and generator",
    "furlkit.exchanges.style:Style",
    paper=FEDSTYLE,
)

# For every personal method.
SENT_MODEL = Option("sent-model", Choice(("copy", "own")), "copy",
    "The model that leaves the client: the trained copy of the global model, or the "
    "client's own model (FedStyle Algorithm 1, line 10; of --mix weights its own weights "
    "v).", newer=True)

PERSONAL = named(
    Personal("none", "no model but the one that is sent", ""),
    Personal("ditto", "a model that is trained after the other and pulled towards it",
        "furlkit.personal.ditto:term",
        options=(
            Option("pull", Number(low=0), 1.0,
                   "mu of (mu/2) ||v - w||^2, v the client's own model; 0 trains it on "
                   "its own."),
            Option("pull-to", Choice(("received", "trained")), "received",
                   "w is the global model as it was received, or (FedStyle) the copy "
                   "that the client has just trained."),
            SENT_MODEL,
        ),
        paper=DITTO,
        equation="Eq. 1, Algorithm 1; FedStyle's appendix",
        printed="as printed; FedStyle's form is `--pull-to trained --sent-model own`",
    ),
    Personal("apfl", "a mixture of a model of its own and the global one",
        "furlkit.personal.apfl:learner",
        options=(
            Option("own-share", Number(0, 1), 0.5,
                   "alpha, how much of the mixture is the client's own. At 0 it is the "
                   "global model; at 1 the client trains on its own."),
            Option("mix", Choice(("weights", "views")), "weights",
                   "What is mixed: weights, alpha v + (1 - alpha) w; or (FedStyle) z of "
                   "one view by the client's own model and of the other by the global "
                   "one."),
            Option("own-share-rate", Number(low=0), 0.0,
                   "Learning rate of alpha, which then starts at --own-share and is kept "
                   "from round to round; 0 leaves it as it is.",
                   needs="mix=weights"),
            SENT_MODEL,
        ),
        paper=APFL,
        equation="Algorithm 1; FedStyle's appendix",
        printed="as printed; FedStyle's form is `--mix views --sent-model own`, with "
                "z_g where its line 12 has z",
    ),
)

PERSONAL_MODEL = Exchange("personal", "a model that the client trains for itself",
    "furlkit.exchanges.personal:PersonalModel",
    family=Family(
        "personal", lambda: PERSONAL, "none",
        "A model of the client's own, which stays in its private file.", newer=True,
    ),
)

CONTROL = Exchange("control", "control variates: mean gradients of server and client",
    "furlkit.exchanges.control:Control",
    paper=SCAFFOLD,
    equation="Algorithm 1",
)

NORMS = Exchange("norms", "BatchNorm layers that stay at the client",
    "furlkit.exchanges.norms:Norms",
    title="Layers of the client's own: FedBN",
    options=(
        Option("keep-norms", Flag(), False,
               "Keep the BatchNorm layers, with their statistics, in the private file; the "
               "server averages the others. Score such models with evaluate personal.",
               newer=True),
    ),
    paper=FEDBN,
    equation="Algorithm 1",
    printed="as printed",
)

CENTROIDS = Exchange("centroids", "centroids of z with counts, local and global ones",
    "furlkit.exchanges.centroids:Centroids",
    title="Sharing centroids: prototypes without classes",
    options=(
        Option("centroids", File("features", "centroids", "received"),
               help="Global centroids that --centroid-weight draws images to; aggregate "
                    "--rule centroids writes them. Leave the flag out in round 1.",
               recorded=False, needs="centroid-weight"),
        Option("centroids-out", File("features", direction="sent", per_client=True),
               help="Where to write centroids of z of the client's images, with the number "
                    "of images of each; may hold {client}. A centroid of one image is the "
                    "feature of this image: it is not anonymous.", recorded=False),
        Option("local-centroids", Whole(1), 16, "The most centroids that a client shares.",
               needs="centroids-out"),
    ),
    paper=ORCHESTRA,
    equation="section 4, local clustering",
    printed="differs: clusters of z after training, not of equal size; the assignment loss "
            "is not here",
)

EXCHANGES = named(
    *(DICTIONARY, TARGETS, NEIGHBOURS, HELPERS, BANK, STYLE, PERSONAL_MODEL, CONTROL),
    NORMS, CENTROIDS,
)
