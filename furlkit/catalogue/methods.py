"""Objectives, terms, updates, rules, encoders, and what clients share."""

from furlkit.catalogue.entries import (
    Choice,
    Encoder,
    File,
    Flag,
    Head,
    Number,
    Numbers,
    Objective,
    Option,
    Rule,
    Term,
    Text,
    Update,
    Whole,
    group,
    named,
)
from furlkit.catalogue.papers import (
    BARLOW,
    BYOL,
    DEEPCLUSTER,
    FCL,
    FEDAVG,
    FEDCA,
    FEDEMA,
    FEDPROX,
    FEDSTYLE,
    FLESD,
    MOCO,
    ROTNET,
    SIMCLR,
    SIMSIAM,
    SWAV,
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
    ),
    Objective("simsiam", "each view predicts the other's projection",
        heads=("projector", "predictor"),
        function="furlkit.objectives.simsiam:step",
        again=True,
        paper=SIMSIAM,
        equation="Eq. 1-4",
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
        paper=SWAV,
        equation="Eq. 1-5",
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
    ),
    Objective("rotation", "which quarter turn an image was given",
        heads=("rotation",),
        function="furlkit.objectives.rotation:step",
        paper=ROTNET,
        equation="Eq. 2-3",
    ),
    Objective("autoencoder", "reconstruction through a decoder",
        heads=("decoder",),
        function="furlkit.objectives.autoencoder:step",
        equation="squared error",
    ),
    Objective("supervised", "cross-entropy on labels",
        heads=("classifier",),
        function="furlkit.objectives.supervised:step",
        labels=True,
        paper=FEDAVG,
        equation="cross-entropy",
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
    ),
)

UPDATES = named(
    Update("replace", "the global model", "furlkit.updates.replace:replace",
        paper=FEDAVG,
    ),
    Update("keep", "the client's own model, given in place of GLOBAL",
        "furlkit.updates.replace:replace",
        paper=FLESD,
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
    ),
)

DICTIONARY_SIZE = Option("dictionary-size", Whole(1), 1024, "K, its number of rows.")

RULES = named(
    Rule("mean", "the weighted mean of models", "furlkit.aggregators.mean:mean",
        reads="checkpoint",
        options=(
            Option("weights", Text("examples|uniform|FILE.json"), "examples",
                   'By number of images, equal, or given as {"CLIENT": '
                   "WEIGHT}."),
            Option("bn", Choice(("average", "keep")), "average",
                   "BatchNorm statistics are averaged, or left out for "
                   "clients to keep."),
        ),
        paper=FEDAVG,
        equation="Algorithm 1; FedCA Eq. 2",
    ),
    Rule("dictionary", "the rows that clients share, one after the other",
        "furlkit.aggregators.dictionary:dictionary",
        reads="rows",
        options=(DICTIONARY_SIZE,),
        paper=FEDCA,
        equation="Eq. 9-10, Algorithm 1",
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
    ),
)

NEGATIVES = Option("negatives", Choice(("fused", "remote", "local")), "fused",
    "What images are told apart from where a dictionary is given: the client's own images "
    "(batch or queue) and the dictionary (FedCA Eq. 6, FCL Eq. 3), the dictionary alone "
    "(FCL Eq. 5), or its own alone.", newer=True)
SHARE_ROWS = ("averaged", "instahide", "mixup", "plain")

# What a client shares for others to use as negatives.
SHARING = group("Sharing rows: FedCA's dictionary, FCL's remote features",
    Option("dictionary", File(),
           help="Rows that are negatives for every image; aggregate --rule dictionary "
                "writes them.", recorded=False),
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
)
