"""Objectives, terms, updates, personal models, rules, encoders, what clients share."""

from furlkit.catalogue.entries import (
    Choice,
    Encoder,
    File,
    Flag,
    Head,
    Mode,
    Number,
    Numbers,
    Objective,
    Option,
    Personal,
    Rule,
    Teacher,
    Term,
    Text,
    Update,
    Whole,
    group,
    named,
)
from furlkit.catalogue.groups import LAYER, PART
from furlkit.catalogue.papers import (
    APFL,
    ASTW,
    BARLOW,
    BYOL,
    DEEPCLUSTER,
    DITTO,
    DSFL,
    FCL,
    FEDAVG,
    FEDCA,
    FEDEMA,
    FEDMATCH,
    FEDOPT,
    FEDPROX,
    FEDSTYLE,
    FEDU,
    FLESD,
    HSU,
    KRUM,
    LDAWA,
    MOCO,
    ORCHESTRA,
    RFA,
    ROTNET,
    SCAFFOLD,
    SCAN,
    SIMCLR,
    SIMSIAM,
    SUN,
    SWAV,
    WU,
    YIN,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

# Weights are drawn in this order, so a new head goes to the end.
HEADS = named(
    Head("projector", widths=(512, 128), help="Widths of the projector's layers."),
    Head("predictor", reads="z", widths=(512, 128),
         help="Widths of the predictor's layers."),
    Head("decoder", form="decoder"),
    Head("classifier", form="linear"),
    Head("rotation", form="linear", widths=(4,)),
    Head("prototypes", reads="z", form="prototypes", widths=(300,),
         help="Number of prototypes."),
    Head("clusters", form="clusters", widths=(10,), help="Number of clusters."),
)

NEAREST = Option("nearest", Whole(1), 20, "Neighbours of each image, by cosine.")

# For objectives that compare an image with its nearest neighbours.
MINING = (
    NEAREST._replace(help="Neighbours of each of the client's images; they stay in the "
                          "private file."),
    Option("mine-layer", Choice(("h", "z")), "z",
           "Neighbours are the nearest by cosine of h, the encoder's output, or z, the "
           "projector's."),
    Option("mine-every", Whole(0), 0,
           "Rounds after which a client mines its neighbours again; 0 keeps those of "
           "its private file."),
    Option("neighbours-from", Text("FILE"),
           help="Take the neighbours from this file, which the command neighbours wrote; "
                "may hold {client}.", recorded=False, replaces="mine-layer mine-every"),
)

# For objectives that look at what other clients' models say.
HELPERS = (
    Option("helper", File(), (),
           "An upload of the last round that helpers may be chosen from; may be repeated.",
           multiple=True, recorded=False, variable="helper_files"),
    Option("helpers", Whole(1), 2,
           "H, the other clients whose models help: those whose answers to the same noise "
           "are nearest.", variable="helper_count"),
)

OBJECTIVES = named(
    Objective("simclr", "contrast of two views (NT-Xent)",
        heads=("projector",),
        function="furlkit.objectives.simclr:step",
        options=(
            Option("temperature", Number(above=0), 0.5, "tau of the contrast."),
            Option("form", Choice(("oneway", "symmetric", "full")), "full",
                   "View 1 against view 2, both ways, or all 2N views."),
        ),
        negatives=True,
        own_rows=True,
        again=True,
        paper=SIMCLR,
        equation="Eq. 1; FedCA Eq. 3-8",
        printed="as printed; `--form oneway` is FedCA Eq. 4-8 and FLESD Eq. 3",
    ),
    Objective("simsiam", "each view predicts the other's projection",
        heads=("projector", "predictor"),
        function="furlkit.objectives.simsiam:step",
        again=True,
        paper=SIMSIAM,
        equation="Eq. 1-4",
        printed="as printed",
    ),
    Objective("byol", "a net predicts the projections of a slow copy of itself",
        heads=("projector", "predictor"),
        function="furlkit.objectives.byol:learner",
        options=(
            Option("ema", Number(0, 1), 0.99, "How much of the target stays in a step."),
        ),
        again=True,
        paper=BYOL,
        equation="Eq. 1-2",
        printed="as printed",
    ),
    Objective("moco", "a query finds its key among those of earlier batches",
        heads=("projector",),
        function="furlkit.objectives.moco:learner",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the contrast."),
            Option("ema", Number(0, 1), 0.99, "How much of the target stays in a step."),
            Option("queue", Whole(1, 2**24), 4096,
                   "K, keys of the client's earlier batches; best fewer than it has "
                   "images. They stay in the private file."),
        ),
        negatives=True,
        again=True,
        paper=MOCO,
        equation="Eq. 1-2; FCL Eq. 1-3, 6",
        printed="as printed; BatchNorm is not shuffled; `--negatives remote` is FCL "
                "without Q_l",
    ),
    Objective("barlow", "views agree in every number of z, and no two numbers say the same",
        heads=("projector",),
        function="furlkit.objectives.barlow:step",
        options=(
            Option("redundancy", Number(low=0), 5e-3,
                   "lambda, weight of the correlations between different numbers."),
        ),
        again=True,
        paper=BARLOW,
        equation="Eq. 1-2",
        printed="as printed",
    ),
    Objective("swav", "each view predicts the other's share in every prototype",
        heads=("projector", "prototypes"),
        function="furlkit.objectives.swav:learner",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the predictions."),
            Option("epsilon", Number(above=0), 0.05,
                   "Smoothness of the codes; small ones choose one prototype."),
            Option("sinkhorn-iterations", Whole(1), 3,
                   "How often prototypes and images are brought into balance."),
            Option("freeze-steps", Whole(0), 100,
                   "Steps at the start of the run, counted through all rounds, that "
                   "leave the prototypes as they are."),
            Option("queue", Whole(1, 2**24), 3840,
                   "Features of the client's earlier batches, for each view, that codes "
                   "look at once so many are there. They stay in the private file."),
            Option("queue-after", Whole(0), 1000,
                   "Steps of the run, through all rounds, before features enter the "
                   "queue."),
        ),
        mixes=False,  # Prototypes stay unit rows.
        paper=SWAV,
        equation="Eq. 1-5",
        printed="differs: two views, no small crops",
    ),
    Objective("deepcluster", "both views fall into the cluster of their image",
        heads=("projector",),
        function="furlkit.objectives.deepcluster:learner",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the scores."),
            Option("clusters", Numbers(whole=True, low=1), (100, 100, 100),
                   "Clusters of each clustering: 100,100,100 makes three, from "
                   "different starts."),
            Option("kmeans-iterations", Whole(1), 10,
                   "Iterations of k-means, at the start of each epoch."),
        ),
        paper=DEEPCLUSTER,
        equation="Eq. 1-2; SwAV app. D",
        printed="differs: DeepCluster-v2 (SwAV app. D), centroids in place of a "
                "trained classifier",
    ),
    Objective("instance", "every image is a class of its own, with a row in a bank",
        heads=("projector",),
        function="furlkit.objectives.instance:learner",
        options=(
            Option("temperature", Number(above=0), 0.07, "tau of the softmax."),
            Option("bank-momentum", Number(0, 1), 0.5,
                   "How much of an image's row in the bank stays when a step meets the "
                   "image. The bank stays in the private file."),
        ),
        keeps="bank",
        paper=WU,
        equation="Eq. 2-3",
        printed="as printed; the sum of Eq. 2 is exact, not estimated (Eq. 4-8)",
    ),
    Objective("cluster", "an image and its neighbours fall into the same of all clusters",
        heads=("clusters",),
        function="furlkit.objectives.cluster:learner",
        options=(
            Option("entropy-weight", Number(low=0), 5.0,
                   "lambda, the weight of the entropy of the mean assignment, which keeps "
                   "images from all falling into one cluster."),
            Option("nearest-used", Choice(("one", "all")), "one",
                   "A step compares an image with one of its --nearest neighbours, drawn "
                   "at random (SCAN); or sums over all of them (FedUSC Eq. 3), where a "
                   "step takes several times as long.", newer=True),
            *MINING,
        ),
        mines=True,
        paper=SCAN,
        equation="Eq. 2; FedUSC Eq. 3",
        printed="differs: one neighbour is drawn in a step (SCAN's code); FedUSC Eq. "
                "3 is `--nearest-used all`",
    ),
    Objective("rotation", "which quarter turn an image was given",
        heads=("rotation",),
        function="furlkit.objectives.rotation:step",
        paper=ROTNET,
        equation="Eq. 2-3",
        printed="as printed",
    ),
    Objective("autoencoder", "reconstruction through a decoder",
        heads=("decoder",),
        function="furlkit.objectives.autoencoder:step",
        equation="squared error",
        printed="nothing printed",
    ),
    Objective("supervised", "cross-entropy on labels",
        heads=("classifier",),
        function="furlkit.objectives.supervised:step",
        labels=True,
        paper=FEDAVG,
        equation="cross-entropy",
        printed="as printed",
    ),
    Objective("fedmatch", "what the client and its helpers are sure of, without labels",
        heads=("classifier",),
        function="furlkit.objectives.fedmatch:learner",
        options=(
            Option("confidence", Number(0, 1), 0.75,
                   "tau: an image counts if the probability of a class is so large."),
            Option("agreement-weight", Number(low=0), 0.01,
                   "lambda_a, of the cross-entropy of agreed labels."),
            Option("consistency-weight", Number(low=0), 0.01,
                   "lambda_i, of the divergence from the helpers."),
            Option("l1", Number(low=0), 1e-5, "lambda_L1 of ||psi||_1."),
            Option("l2", Number(low=0), 10.0, "lambda_L2 of ||sigma - psi||^2."),
            Option("psi-share", Number(low=0), 0.2,
                   "psi / sigma of a model that nobody has divided into the two yet."),
            *HELPERS,
        ),
        sends=("sigma",),
        helped=True,
        paper=FEDMATCH,
        equation="sections 3.2, 3.3",
        printed="as printed; all weights travel, not their differences",
    ),
)

TERMS = named(
    Term("proximal", "the weights stay near the global model's",
        "furlkit.terms.proximal:proximal",
        switch="proximal",
        options=(
            Option("proximal", Number(low=0), 0.0,
                   "mu of (mu/2) ||w - w_global||^2; 0 turns it off."),
        ),
        paper=FEDPROX,
        equation="Eq. 2",
        printed="as printed",
    ),
    Term("alignment", "h and z of public images stay near those of a common model",
        "furlkit.terms.alignment:alignment",
        switch="align",
        options=(
            Option("align", File(),
                   help="h and z of public images by the alignment model, as "
                        "pretrain-align writes them.", recorded=False,
                   metavar="TARGETS"),
            Option("align-data", Text("NAME|PATH"),
                   help="The public images that the targets were made from.",
                   recorded=False),
            Option("align-split", Choice(("train", "test")), "train",
                   "Which split of a dataset known by name.", recorded=False),
            Option("beta", Number(low=0), 0.01, "Weight of the term."),
            Option("align-reduction", Choice(("sum", "mean")), "sum",
                   "Over the public images of a step."),
            Option("align-batch-size", Whole(1), 128,
                   "Public images of each step."),
        ),
        paper=FEDCA,
        equation="Eq. 11-14",
        printed="as printed; the client's net is in eval mode, which is not told; "
                "`--align-reduction mean`: a mean",
    ),
    Term("neighbours", "images are drawn to the nearest rows of the queue and the dictionary",
        "furlkit.terms.neighbours:neighbours",
        switch="neighbours",
        options=(
            Option("neighbours", Whole(0), 0,
                   "N, the rows that an image is drawn to; 0 turns it off.", newer=True),
            Option("neighbour-candidates", Whole(1), 4096,
                   "K, rows drawn at random in each step, among which neighbours are."),
            Option("neighbour-temperature", Number(above=0), 0.1,
                   "tau_nm of the choice among them."),
            Option("neighbour-weight", Number(low=0), 0.1, "lambda of the term."),
        ),
        matches_rows=True,
        paper=FCL,
        equation="Eq. 7-12",
        printed="as printed",
    ),
    Term("infusion", "the loss once more, of views infused with the client's style",
        "furlkit.terms.infusion:infusion",
        switch="infusion",
        options=(
            Option("infusion", Number(low=0), 0.0,
                   "lambda, weight of the second loss; 0 turns it off. The style model "
                   "is that of --private, as pretrain-style writes it.", newer=True),
            Option("freeze-generator", Flag(), False,
                   "Leave the generator G, which infuses, as it was drawn."),
        ),
        infuses=True,
        paper=FEDSTYLE,
        equation="Eq. 3, Algorithm 3",
        printed="as printed; G is trained too, which is not told: `--freeze-generator`",
    ),
)

UPDATES = named(
    Update("replace", "the global model", "furlkit.updates.replace:replace",
        paper=FEDAVG,
        printed="as printed",
    ),
    Update("keep", "the client's own model, given in place of GLOBAL",
        "furlkit.updates.replace:replace",
        paper=FLESD,
        printed="nothing printed",
    ),
    Update("continue", "the client's own model of this round, given in place of GLOBAL",
        "furlkit.updates.replace:replace",
        own=True,
        equation="a second training in a round: FedUSC Eq. 6",
        printed="as printed: both trainings of a round, one after the other",
    ),
    Update("own", "the client's own model of its last round; the global one at first",
        "furlkit.updates.own:own",
        own=True,
        paper=FEDSTYLE,
        equation="appendix, FedProx",
        printed="as printed",
    ),
    Update("fedema", "the global model mixed with the client's own by their distance",
        "furlkit.updates.fedema:fedema",
        options=(
            Option("tau", Number(0, 1), 0.7,
                   "How much of its own the client keeps when it first mixes."),
        ),
        own=True,
        paper=FEDEMA,
        equation="section 4",
        printed="as printed",
    ),
    Update("fedu", "the global model; of the predictor the client's own if they are far "
                   "apart",
        "furlkit.updates.fedu:fedu",
        options=(
            Option("mu", Number(low=0), 0.4,
                   "The predictor is the global one while the encoders are closer: the "
                   "mean over convolutions of the L2 distance."),
        ),
        own=True,
        heads=("predictor",),
        paper=FEDU,
        equation="DAPU",
        printed="differs: the divergence is the mean over convolutions (the authors' "
                "code)",
    ),
    Update("dum", "the global model, mixed with the client's own if they are far apart",
        "furlkit.updates.dum:dum",
        options=(
            Option("mu", Number(low=0), 0.4,
                   "The distance of backbone and clusters up to which the client takes "
                   "the global ones; 1e30 always does."),
            Option("xi", Number(0, 1), 0.5,
                   "How much of its own the client keeps beyond it."),
            Option("distance", Choice(("mean-conv", "sum-squares", "relative")),
                   "mean-conv",
                   "The mean over convolutions of the L2 distance; the squared norm over "
                   "all weights, as FedUSC's slides have it; or the norm divided by the "
                   "global model's."),
        ),
        own=True,
        equation="FedUSC Eq. 4",
        printed="differs: the distance is the mean over convolutions; Eq. 4 is "
                "`--distance sum-squares`",
    ),
    Update("astw", "the global encoder; heads travel in some rounds only, and are the "
                   "client's own in the others",
        "furlkit.updates.astw:astw",
        options=(
            Option("cycle", Whole(1), 15, "Rounds of a cycle."),
            Option("exchanges", Whole(1), 5,
                   "The last rounds of a cycle, in which all parts travel; in the "
                   "others only the encoder does."),
        ),
        sends="furlkit.updates.astw:sent_parts",
        paper=ASTW,
        equation="layer-wise asynchronous update",
        printed="differs: whole heads are the deep layers, and clients train on with "
                "their own",
    ),
)

# For every method with a model of the client's own; local-train reads it.
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

DICTIONARY_SIZE = Option("dictionary-size", Whole(1), 1024, "K, its number of rows.")

# Of every rule for models.
_WEIGHTS = Option("weights", Text("examples|uniform|FILE.json"), "examples",
                  'By number of images, equal, or given as {"CLIENT": WEIGHT}.')
_BN = Option("bn", Choice(("average", "keep")), "average",
             "BatchNorm statistics are averaged, or left out for clients to keep.")
_REPORT = Option("report", File(written=True),
                 help="Write for each client the norm of its update, its angle to the "
                      "others, its share, how far the result moved because of it, and "
                      "whether it stands out. Rules other than mean are applied once "
                      "more for each client, which with 40 clients takes 20 to 30 times "
                      "as long as the result alone. With --strict, an upload that stands "
                      "out is an error: the report is written, the output is not.",
                 recorded=False, metavar="FILE.json")
_MAX_SHARE = Option("max-share", Number(above=0, high=1),
                    help="The most that a client may count, of 1; what is above goes to "
                         "the others. Equal shares are always allowed.", usual="1")
_COUNTS = (
    _MAX_SHARE,
    Option("partition", File(),
           help="The partition that the clients were given: none counts more images than "
                "it has there, and clients that it does not have are refused.",
           recorded=False, metavar="PARTITION"),
)
# A number of images is a client's claim, so rules that trust nobody do not count it.
_ROBUST = (_WEIGHTS._replace(default="uniform"), *_COUNTS, _BN, _REPORT)

# Of rules that average updates and then take a step at the server.
_MEAN = (_WEIGHTS, *_COUNTS, _BN, _REPORT)
_SERVER_LR = Option("lr", Number(above=0), 0.01, "eta, the learning rate of the server.")
_ADAPTIVE = (
    _SERVER_LR,
    Option("beta-1", Number(low=0, below=1), 0.9, "Decay of m, the mean update."),
    Option("beta-2", Number(low=0, below=1), 0.99, "Decay of v, the mean square."),
    Option("adaptivity", Number(above=0), 1e-3,
           "tau, which is added to sqrt(v): the larger, the less steps adapt."),
)

RULES = named(
    Rule("mean", "the weighted mean of models", "furlkit.aggregators.mean:mean",
        reads="checkpoint",
        options=(
            _WEIGHTS,
            *_COUNTS,
            _BN,
            _REPORT,
            Option("staleness", Number(low=1),
                   help="Take models of earlier rounds too: one that is s rounds older "
                        "than the newest counts divided by this to the power of s. "
                        "ASTW's is e/2, 1.35914.", usual="one round only"),
        ),
        averages=True,
        paper=FEDAVG,
        equation="Algorithm 1; FedCA Eq. 2; weights of ASTW",
        printed="as printed; FedStyle's weights 1/|D_k|, under which models vanish, "
                "are not offered",
    ),
    Rule("median", "the median of every number, which half of the clients decide",
        "furlkit.aggregators.median:median",
        options=_ROBUST,
        paper=YIN,
        equation="Definition 1",
        printed="as printed; weighted with `--weights`",
    ),
    Rule("trimmed-mean", "the mean of every number without the largest and smallest",
        "furlkit.aggregators.trimmed_mean:trimmed_mean",
        options=(*_ROBUST,
            Option("trim", Number(low=0, below=0.5), 0.2,
                   "beta, the share of the clients that is cut off at either end."),
        ),
        paper=YIN,
        equation="Definition 2",
        printed="as printed; weighted with `--weights`",
    ),
    Rule("geometric-median", "the point whose distances to the models sum to the least",
        "furlkit.aggregators.geometric_median:geometric_median",
        options=(*_ROBUST,
            Option("smoothing", Number(above=0), 1e-6,
                   "nu: distances below it count as this."),
        ),
        paper=RFA,
        equation="smoothed Weiszfeld algorithm",
        printed="as printed; BatchNorm statistics by their median",
    ),
    Rule("krum", "the model, or the mean of those, with the nearest neighbours",
        "furlkit.aggregators.krum:krum",
        options=(*_ROBUST,
            Option("assumed-hostile", Whole(0), 2,
                   "f: so many clients may be hostile; needs 2 f + 3 uploads or more."),
            Option("chosen", Whole(1), 1,
                   "How many models are averaged; more than 1 is multi-Krum."),
        ),
        paper=KRUM,
        equation="Krum and multi-Krum",
        printed="as printed; BatchNorm statistics by their median",
    ),
    Rule("clip", "the mean of updates that are shortened to a length",
        "furlkit.aggregators.clip:clipped_mean",
        options=(*_ROBUST,
            Option("clip", Number(above=0), help="C, the longest update.",
                   usual="the median of all"),
        ),
        paper=SUN,
        equation="norm clipping",
        parent=True,
        printed="as printed with `--clip`; by default C is the median length",
    ),
    Rule("l-dawa", "the mean by the angle of every layer to the global model's",
        "furlkit.aggregators.l_dawa:l_dawa",
        options=(*_ROBUST,
            Option("scaling", Choice(("shares", "paper")), "shares",
                   "The cosines of the clients are divided by their sum, or by the "
                   "number of clients (the paper), which shrinks every layer."),
        ),
        averages=True,
        paper=LDAWA,
        parent=True,
        printed="differs: cosines are at least 0 and divided by their sum; `--scaling"
                " paper` divides by the clients",
    ),
    Rule("fedavgm", "the mean of updates with momentum at the server",
        "furlkit.aggregators.fedopt:fedavgm",
        options=(*_MEAN,
            _SERVER_LR._replace(default=1.0),
            Option("momentum", Number(low=0, below=1), 0.9,
                   "Share of the last step that the next one repeats."),
        ),
        paper=HSU,
        equation="section 4.3; Reddi et al., Algorithm 1",
        parent=True,
        state=("m",),
        averages=True,
        printed="as printed; BatchNorm statistics are averaged",
    ),
    Rule("fedadam", "the mean of updates as the gradient of Adam at the server",
        "furlkit.aggregators.fedopt:fedadam",
        options=(*_MEAN, *_ADAPTIVE),
        paper=FEDOPT,
        equation="Algorithm 2",
        parent=True,
        state=("m", "v"),
        averages=True,
        printed="as printed: no bias correction, v starts at tau^2; BatchNorm statistics "
                "are averaged",
    ),
    Rule("fedyogi", "the mean of updates as the gradient of Yogi at the server",
        "furlkit.aggregators.fedopt:fedyogi",
        options=(*_MEAN, *_ADAPTIVE),
        paper=FEDOPT,
        equation="Algorithm 2",
        parent=True,
        state=("m", "v"),
        averages=True,
        printed="as printed: v starts at tau^2; BatchNorm statistics are averaged",
    ),
    Rule("scaffold", "the mean of updates and of changes of control variates",
        "furlkit.aggregators.scaffold:scaffold",
        options=(*_ROBUST,
            _SERVER_LR._replace(default=1.0),
            Option("clients", Whole(1), help="N, all clients of the federation.",
                   usual="those of the round"),
        ),
        paper=SCAFFOLD,
        equation="Algorithm 1, lines 16-17",
        parent=True,
        adds=("control",),
        averages=True,
        printed="as printed: all clients alike; others with `--weights`",
    ),
    Rule("dictionary", "the rows that clients share, one after the other",
        "furlkit.aggregators.dictionary:dictionary",
        reads="rows",
        options=(
            DICTIONARY_SIZE,
            _MAX_SHARE._replace(
                help="The most that a client may have of --dictionary-size, of 1; its "
                     "last rows are cut off."),
            Option("for", Text("CLIENT"),
                   help="Leave out the rows of this client, which the dictionary is for: "
                        "it need not receive them (FCL).",
                   newer=True, variable="made_for"),
        ),
        paper=FEDCA,
        equation="Eq. 9-10, Algorithm 1",
        printed="as printed; which rows a client shares is not told: drawn at random",
    ),
    Rule("centroids", "clusters of rows that stand for many images each",
        "furlkit.aggregators.centroids:centroids",
        reads="counted rows",
        options=(
            Option("centroids", Whole(1), 128, "K, the number of clusters."),
            Option("iterations", Whole(1), 100, "The most steps of the clustering."),
            Option("equal-sizes", Flag(), False,
                   "Clusters of equal numbers of images, as Orchestra has them."),
            Option("epsilon", Number(above=0), 0.05,
                   "Softness of the assignment to clusters of equal size.",
                   needs="equal-sizes"),
        ),
        paper=ORCHESTRA,
        equation="section 4, global clustering",
        printed="differs: Sinkhorn's plan moves centroids directly, the authors' code by "
                "gradient steps; `--equal-sizes` has its clusters of equal size",
    ),
    Rule("ensemble", "what the clients' models find similar among public images",
        "furlkit.aggregators.similarity:ensemble",
        reads="similarity",
        options=(
            Option("temperature", Number(above=0), 0.1,
                   "tau_T of exp(cosine / tau_T)."),
            Option("matrix", Flag(), False,
                   "Write the n x n matrix instead of what it is computed "
                   "from."),
        ),
        paper=FLESD,
        equation="Eq. 4-6",
        printed="as printed",
    ),
    Rule("probabilities", "what the clients' models take public images for, sharpened",
        "furlkit.aggregators.probabilities:entropy_reduced",
        reads="probabilities",
        options=(
            Option("temperature", Number(above=0), 0.1,
                   "T of softmax(mean probabilities / T)."),
        ),
        paper=DSFL,
        equation="entropy reduction averaging",
        printed="as printed",
    ),
)

# What a hostile client makes of its upload.
_FACTOR = Option("factor", Number(above=0), 1.0, "How much longer its update becomes.")
_START = Option("parent", File(), help="The global model that the client started from.",
                recorded=False, metavar="CHECKPOINT")
ATTACKS = named(
    Mode("scale", "its update, times a factor",
         (_START, _FACTOR._replace(default=100.0))),
    Mode("flip", "its update backwards, times a factor", (_START, _FACTOR)),
    Mode("noise", "Gaussian noise as long as its update, times a factor",
         (_START, _FACTOR._replace(default=10.0))),
    Mode("copy", "another model under its own name",
         (Option("of", File(), help="The model that is copied.", recorded=False,
                 metavar="CHECKPOINT"),)),
    Mode("backdoor-rows", "shared rows that are one and the same",
         (Option("row", Whole(0), 0, "The row that replaces others."),
          Option("fraction", Number(above=0, high=1), 1.0,
                 "The share of the rows that it replaces, drawn at random."))),
)

TEACHERS = named(
    Teacher("ensemble", "what the clients' models find similar",
        "furlkit.objectives.similarity:Distiller",
        lesson="furlkit.stages.distill.ensemble:lesson",
        file="ENSEMBLE",
        options=(
            LAYER._replace(
                default=None, usual="the ensemble's",
                help="Which output of the student is compared with the ensemble."),
            Option("temperature", Number(above=0), help="tau_S.",
                   usual="the ensemble's tau_T"),
            Option("ema", Number(0, 1), 0.999,
                   "zeta, the momentum of the student's slow copy."),
            Option("anchors", Whole(2), 2048, "m, the length of the queue of anchors."),
        ),
        paper=FLESD,
        equation="Eq. 7-10",
        printed="as printed; of h or of z (the authors' code): `--layer`",
    ),
    Teacher("self", "the model itself, where it is sure of an image",
        "furlkit.objectives.selflabel:learner",
        lesson="furlkit.stages.distill.selflabel:lesson",
        options=(
            Option("confidence", Number(0, 1), 0.99,
                   "sigma: an image counts if the probability of a class is so large."),
            Option("form", Choice(("weak-strong", "same")), "weak-strong",
                   "The label is from a view with crop and flip alone, the loss from one "
                   "with all of the augmentation (SCAN); or both are from one view, with "
                   "all of it (FedUSC Eq. 5)."),
            Option("class-weights", Flag(negative=True), True,
                   "Every class that a batch has counts alike."),
            Option("mean-over", Choice(("confident", "all")), "confident",
                   "What the loss is divided by: the images that count, or all of the "
                   "batch (Eq. 5)."),
            *PART,
        ),
        paper=SCAN,
        equation="section 2.3; FedUSC Eq. 5",
        printed="differs: a weak view labels a strong one (SCAN); Eq. 5 is `--form "
                "same --no-class-weights --mean-over all`",
    ),
    Teacher("probabilities", "the classes that the clients' models take images for",
        "furlkit.objectives.soft_labels:step",
        lesson="furlkit.stages.distill.probabilities:lesson",
        file="PROBABILITIES",
        paper=DSFL,
        equation="cross-entropy",
        printed="as printed",
    ),
    Teacher("labels", "the labels of public images, for FedMatch's sigma",
        "furlkit.objectives.fedmatch:labelled_step",
        lesson="furlkit.stages.distill.labels:lesson",
        options=(
            Option("label-weight", Number(above=0), 1.0,
                   "lambda_s, of the cross-entropy."),
            *PART,
        ),
        paper=FEDMATCH,
        equation="section 3.3",
        printed="as printed",
    ),
)

NEGATIVES = Option("negatives", Choice(("fused", "remote", "local")), "fused",
    "What images are told apart from where a dictionary is given: the client's own images "
    "(batch or queue) and the dictionary (FedCA Eq. 6, FCL Eq. 3), the dictionary alone "
    "(FCL Eq. 5), or its own alone.", newer=True)
SHARE_ROWS = ("averaged", "instahide", "mixup", "plain")

# What a client shares for others to use as negatives.
SHARING = group("Sharing rows: FedCA's dictionary, FCL's remote features",
    Option("dictionary", Text("FILE"),
           help="Rows that are negatives for every image, and that --neighbours draws "
                "images to; aggregate --rule dictionary writes them. May hold {client}, "
                "if --for made one for each client.", recorded=False),
    Option("leave-own-out", Flag(), False,
           "Leave the client's own rows of the dictionary out."),
    NEGATIVES,
    Option("features-out", Text("FILE"),
           help="Where to write the rows that the client shares, ceil(K / m) rows; may "
                "hold {client}.", recorded=False),
    Option("share-rows", Choice(SHARE_ROWS), SHARE_ROWS[0],
           "What the rows are: Z, z averaged over rounds (FedCA); z of fresh mixtures of "
           "4 images with random signs (InstaHide, as FCL has it), or of such mixtures "
           "without signs; z of single images. InstaHide has been broken (Carlini et "
           "al. 2021), and features are not anonymous.",
           needs="features-out", newer=True),
    Option("rows-statistics", Choice(("running", "batch")), "running",
           "How BatchNorm normalises the images that rows are computed from: by its "
           "running statistics, as in evaluation; or by their own batch, as MoCo's slow "
           "network does in training, without a change of the running statistics (FCL).",
           needs=f"share-rows={'|'.join(SHARE_ROWS[1:])}", newer=True),
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
)

ENCODERS = named(
    Encoder("cnn5", "furlkit.models.encoders:cnn5", 2048, scales=True,
            help="five convolutions and a linear layer"),
    Encoder("resnet18", "furlkit.models.encoders:resnet", 512, stems=True,
            help="torchvision's ResNet-18"),
    Encoder("resnet34", "furlkit.models.encoders:resnet", 512, stems=True,
            help="torchvision's ResNet-34"),
    Encoder("resnet50", "furlkit.models.encoders:resnet", 2048, stems=True,
            help="torchvision's ResNet-50"),
    Encoder("torchvision:NAME", "furlkit.models.libraries:torchvision_encoder", None,
            help="any classifier of torchvision without its last layer", draws=True),
    Encoder("timm:NAME", "furlkit.models.libraries:timm_encoder", None,
            help="any network of timm (pip install 'furlkit[timm]')", draws=True),
)
