"""Exchanges: data passed between rounds besides the model.

An entry declares the options of an exchange; `function` is a class that implements
`furlkit.exchanges.exchange.Exchange`. An exchange with a `title` has a separate group of
options. Objectives and terms list the options of the remaining exchanges.
"""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import (
    CACHE,
    Choice,
    Data,
    Exchange,
    Family,
    File,
    Flag,
    Number,
    Option,
    Personal,
    Text,
    Whole,
    named,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

DICTIONARY_SIZE = Option("dictionary-size", Whole(1), 1024, "K, rows of the dictionary.")
NEGATIVES = Option("negatives", Choice(("fused", "remote", "local")), "fused",
    "Negatives with a dictionary: fused, the client's images (batch or queue) and the "
    "dictionary (FedCA Eq. 6, FCL Eq. 3); remote, the dictionary (FCL Eq. 5); local, the "
    "client's images.", newer=True)
# The words of --share-rows, with the description by inspect.
SHARE_ROWS = {
    "averaged": "",
    "instahide": "features of images mixed by InstaHide, a broken protection "
                 "(Carlini et al. 2021); not anonymous",
    "mixup": "features of mixtures of images; not anonymous",
    "plain": "features of single images; not anonymous",
}


DICTIONARY = Exchange("dictionary", "rows shared by a client, and rows of the other clients",
    "furlkit.exchanges.dictionary:Dictionary",
    check="furlkit.exchanges.sharing:check",
    record="furlkit.exchanges.recorded:record_rows",
    title="Sharing rows: FedCA's dictionary, FCL's remote features",
    options=(
        Option("dictionary", File("features", "dictionary", "received", per_client=True),
               help="Output of aggregate --rule dictionary: negatives for every image, and "
                    "candidates of --neighbours. May contain {client}, for dictionaries "
                    "made with --for.", recorded=False),
        Option("leave-own-out", Flag(), False,
               "Ignore the client's rows in the dictionary, by the owners of the rows; a "
               "site finds rows without owners by the content, in --private."),
        NEGATIVES,
        Option("features-out", File("features", "features", "sent", per_client=True),
               help="File for the client's shared rows, ceil(K / m) rows; may contain "
                    "{client}.", recorded=False),
        Option("secret", File("key", direction=CACHE, per_client=True), metavar="FILE",
               help="Secret of the site, 32 random bytes that never leave the site: the "
                    "choice of the shared images, the mixtures and the noise come from the "
                    "secret, not from --seed, which others may guess. A missing file is "
                    "created; another secret than in files of an earlier run of the "
                    "command is refused. May contain {client}. Needs --features-out or "
                    "--correlations-noise.",
               usual="without a PARTITION CLIENT.secret beside --private-out, otherwise "
                     "--seed",
               recorded=False),
        Option("share-rows", Choice(tuple(SHARE_ROWS)), "averaged",
               "Content of the rows: averaged, z averaged over rounds (FedCA's Z); "
               "instahide, z of fresh mixtures of 4 images with random signs (FCL); mixup, "
               "z of mixtures without signs; plain, z of single images. InstaHide is broken "
               "(Carlini et al. 2021), and features are not anonymous.",
               needs="features-out", newer=True),
        Option("rows-statistics", Choice(("running", "batch")), "running",
               "BatchNorm statistics for computing rows: running, like in evaluation; or "
               "batch, like MoCo's slow network in training, without a change of the "
               "running statistics (FCL).",
               needs=f"share-rows={'|'.join([*SHARE_ROWS][1:])}", newer=True),
        Option("row-noise", Number(low=0, high=100), 0.0,
               "Standard deviation of Gaussian noise on every number of the shared rows, "
               "which have length 1 before and after. The noise comes from --secret; in a "
               "simulation it comes from --seed and hides nothing from readers of the "
               "header. Measure the leakage by audit rows.",
               needs="features-out", newer=True),
        Option("alpha", Number(low=0, below=1), 0.5,
               "Z <- alpha Z + (1 - alpha) z; 0 shares only z (FedCA Eq. 9).",
               needs="share-rows=averaged"),
        DICTIONARY_SIZE._replace(needs="features-out"),
        Option("participants", Whole(1), help="m, number of clients in the round.",
               usual="all of the partition", needs="features-out"),
        Option("dictionary-from", Choice(("client", "global")), "client",
               "Model that computes z: the client's model after training (FedCA's Algorithm "
               "1), or the received global model (the paper's text, with --alpha 0). With "
               "MoCo, the slow network of this model.", newer=True),
        Option("dictionary-positive", Choice(("view", "own")), "view",
               "Positive against the dictionary: the second view; or own, the image's row of "
               "Z in --private, with --dictionary-from global the global model's z (ours, "
               "after MoCo's key).", newer=True),
    ),
    paper=papers.FEDCA,
    equation="Eq. 4-10; with `--share-rows` FCL Eq. 3-6",
)

TARGETS = Exchange("targets", "h and z of public images by a common model",
    "furlkit.exchanges.targets:Targets",
    check="furlkit.exchanges.usage:check_targets",
    options=(
        Option("align", File("targets", "targets", "received once"),
               help="Output of pretrain-align: the alignment model's h and z of public "
                    "images.", recorded=False,
               metavar="TARGETS"),
        Option("align-data", Data(),
               help="Public images of the targets.",
               recorded=False),
        Option("align-split", Choice(("train", "test")), "train",
               "Split of a built-in dataset.", recorded=False),
    ),
    paper=papers.FEDCA,
    equation="Eq. 11-14",
)

NEAREST = Option("nearest", Whole(1), 20, "Number of neighbours of each image, by cosine.")

NEIGHBOURS = Exchange("neighbours", "the nearest images of each image at the client",
    "furlkit.exchanges.neighbours:NearestImages",
    check="furlkit.exchanges.usage:check_neighbours",
    options=(
        NEAREST._replace(help="Number of neighbours of each image, by cosine; the "
                              "neighbours stay in the private file."),
        Option("mine-layer", Choice(("h", "z")), "z",
               "Layer for finding neighbours: h, the encoder's output, or z, the "
               "projector's output."),
        Option("mine-every", Whole(0), 0,
               "Rounds between searches for neighbours; 0 keeps the neighbours of the "
               "private file."),
        Option("neighbours-from", File("neighbours", "neighbours", per_client=True),
               help="Output of the command neighbours, used instead of a search; may "
                    "contain {client}.", recorded=False, replaces="mine-layer mine-every"),
    ),
    paper=papers.SCAN,
)

HELPERS = Exchange("helpers", "models of further clients close to the client's model",
    "furlkit.exchanges.helpers:Helpers",
    options=(
        Option("helper", File("checkpoint", "helper", "received", chosen=True,
                              signer="client"), (),
               "Upload of the last round, a candidate helper; may be repeated.",
               multiple=True, recorded=False, variable="helper_files"),
        Option("helpers", Whole(1), 2,
               "H, number of helpers: models of other clients with the nearest answers to a "
               "common noise.", variable="helper_count"),
    ),
    paper=papers.FEDMATCH,
    equation="inter-client consistency",
)

BANK = Exchange("bank", "a row for each of the client's images",
    "furlkit.exchanges.bank:Bank",
    paper=papers.WU,
)

STYLE = Exchange("style", "the client's style model and generator",
    "furlkit.exchanges.style:Style",
    check="furlkit.exchanges.usage:check_style",
    paper=papers.FEDSTYLE,
)

# For every personal method.
SENT_MODEL = Option("sent-model", Choice(("copy", "own")), "copy",
    "Model to send: the trained copy of the global model; or own, the personal model "
    "(FedStyle Algorithm 1, line 10; with --mix weights the weights v).", newer=True)

PERSONAL = named(
    Personal("none", "no personal model", ""),
    Personal("ditto", "a model that is trained after the upload and pulled towards w",
        "furlkit.personal.ditto:term",
        options=(
            Option("pull", Number(low=0), 1.0,
                   "mu of (mu/2) ||v - w||^2 for the personal model v; 0 trains v "
                   "independently."),
            Option("pull-to", Choice(("received", "trained")), "received",
                   "w: the received global model, or (FedStyle) the copy trained in this "
                   "round."),
            SENT_MODEL,
        ),
        paper=papers.DITTO,
        equation="objective of the personal models; FedStyle's appendix",
        printed="as printed; FedStyle's form is `--pull-to trained --sent-model own`",
    ),
    Personal("apfl", "a mixture of a personal model and the global model",
        "furlkit.personal.apfl:learner",
        options=(
            Option("own-share", Number(0, 1), 0.5,
                   "alpha, share of the personal model in the mixture: 0 gives the global "
                   "model, 1 an independent model."),
            Option("mix", Choice(("weights", "views")), "weights",
                   "Mixture: weights, alpha v + (1 - alpha) w; or (FedStyle) views, z of a "
                   "view by the global model and z of the second view by the personal "
                   "model."),
            Option("own-share-rate", Number(low=0), 0.0,
                   "Learning rate of alpha, which starts at --own-share and is kept "
                   "between rounds; 0 keeps alpha constant.",
                   needs="mix=weights"),
            SENT_MODEL,
        ),
        paper=papers.APFL,
        equation="Algorithm 1; FedStyle's appendix",
        printed="as printed; FedStyle's form is `--mix views --sent-model own`, with "
                "z_g instead of z in line 12",
    ),
)

PERSONAL_MODEL = Exchange("personal", "a personal model of the client",
    "furlkit.exchanges.personal:PersonalModel",
    check="furlkit.exchanges.usage:check_personal",
    family=Family(
        "personal", lambda: PERSONAL, "none",
        "Personal model of the client, which stays in the private file.", newer=True,
    ),
)

CONTROL = Exchange("control", "control variates: mean gradients of server and client",
    "furlkit.exchanges.control:Control",
    check="furlkit.exchanges.usage:check_control",
    paper=papers.SCAFFOLD,
    equation="Algorithm 1",
)

NORMS = Exchange("norms", "BatchNorm layers that stay at the client",
    "furlkit.exchanges.norms:Norms",
    check="furlkit.exchanges.usage:check_norms",
    title="Layers of the client's own: FedBN",
    options=(
        Option("keep-norms", Flag(), False,
               "Keep the BatchNorm layers, with their statistics, in the private file; the "
               "server averages the others. Score such models with evaluate personal.",
               newer=True),
    ),
    paper=papers.FEDBN,
    equation="local BatchNorm layers",
    printed="as printed",
)

LAYERS = Exchange("layers", "layers of the encoder that are trained and sent",
    "furlkit.exchanges.layers:Layers",
    check="furlkit.exchanges.usage:check_layers",
    title="Training by layers: LW-FedSSL",
    options=(
        Option("train-layers", Text("LAYER,..."),
               help="Layers of the encoder to train and to send, with the heads: first "
                    "words of the names of tensors after `encoder.`, like conv1,bn1 or "
                    "blocks.0. Other layers stay as received and are not in the upload; "
                    "aggregate --complete adds them.",
               usual="all layers", newer=True),
    ),
    paper=papers.LWFEDSSL,
    equation="layer-wise training",
    printed="differs: later layers exist from the start, with initial weights",
)

CENTROIDS = Exchange("centroids", "centroids of z with counts, local and global ones",
    "furlkit.exchanges.centroids:Centroids",
    check="furlkit.exchanges.usage:check_centroids",
    title="Sharing centroids: Orchestra, prototypes without classes",
    options=(
        Option("centroids", File("features", "centroids", "received"),
               help="Global centroids, for --objective orchestra or --centroid-weight; "
                    "aggregate --rule centroids writes them. Leave the flag out in round "
                    "1.", recorded=False),
        Option("centroids-out", File("features", "local_centroids", "sent", per_client=True),
               help="Where to write centroids of z of the client's images, with the number "
                    "of images of each; may hold {client}. A centroid of one image is the "
                    "feature of this image: it is not anonymous.", recorded=False),
        Option("local-centroids", Whole(1), 16, "The most centroids that a client shares.",
               needs="centroids-out"),
        Option("local-equal-sizes", Flag(), False,
               "Form local clusters of equal numbers of images, like Orchestra.",
               needs="centroids-out", newer=True),
    ),
    paper=papers.ORCHESTRA,
    equation="local clustering",
    printed="differs: an iterative clustering; the authors' code calls Sinkhorn five times "
            "(epsilon 0.04, here 0.05) and takes the mean of each cluster once; "
            "`--local-equal-sizes` for Orchestra's clusters of equal size",
)

CORRELATIONS = Exchange("correlations", "correlation matrices of z, of a client and the mean",
    "furlkit.exchanges.correlations:Correlations",
    check="furlkit.exchanges.usage:check_correlations",
    record="furlkit.exchanges.recorded:record_noise",
    title="Sharing correlations: FedSC",
    options=(
        Option("correlations", File("correlations", "correlations", "received"),
               help="Output of aggregate --rule correlations: the loss contrasts the "
                    "client's images with the images of other clients through this matrix. "
                    "Leave the flag out in round 1.", recorded=False),
        Option("correlations-out",
               File("correlations", "own_correlations", "sent", per_client=True),
               help="File for R_k, d x d correlations of z of the client's images by the "
                    "trained model; may contain {client}.", recorded=False),
        Option("correlations-noise", Number(low=0), 0.0,
               "Standard deviation of Gaussian noise on every number of R_k. A site draws "
               "the noise from --secret. A simulation without --secret draws from --seed, "
               "which protects nothing from readers who know the seed.",
               needs="correlations-out"),
    ),
    paper=papers.FEDSC,
    equation="local objective",
    printed="differs: R_k by the client's trained model, of images without augmentation; "
            "the paper computes R_k by the global model, in a second exchange per round",
)

KERNEL = Exchange("kernel", "mean cosines of public images by the models of all clients",
    "furlkit.exchanges.kernel:Kernel",
    check="furlkit.exchanges.usage:check_kernel",
    title="Sharing cosines of public images: Hetero-SSFL",
    options=(
        Option("kernel", File("similarity", "kernel", "received"),
               help="Output of aggregate --rule kernels, for --cka. Leave the flag out in "
                    "round 1.", recorded=False),
        Option("kernel-data", Data(), help="Public images of the kernel.", recorded=False,
               needs="kernel"),
        Option("kernel-split", Choice(("train", "test")), "train",
               "Split of a built-in dataset.", recorded=False, needs="kernel"),
    ),
    paper=papers.HETEROSSFL,
    equation="mean kernel",
    printed="differs: clients share cosines of public images, in the file of embed",
)

EXCHANGES = named(
    *(DICTIONARY, TARGETS, NEIGHBOURS, HELPERS, BANK, STYLE, PERSONAL_MODEL, CONTROL),
    NORMS, LAYERS, CENTROIDS, CORRELATIONS, KERNEL,
)
