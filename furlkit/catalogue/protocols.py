"""How models are scored."""

from furlkit.catalogue.entries import (
    STEM,
    WIDTH,
    Argument,
    Choice,
    Clients,
    Data,
    Family,
    File,
    Flag,
    Mode,
    Number,
    Numbers,
    Option,
    Protocol,
    Whole,
    group,
    named,
    varied,
)
from furlkit.catalogue.exchanges import DICTIONARY_SIZE, NEGATIVES
from furlkit.catalogue.groups import (
    AUGMENTATION,
    BATCH_SIZE,
    GENERAL,
    GROUPS,
    IN_OUT,
    LAYER,
    OPTIMISER,
    PART,
    PRECISION,
    RUNNING,
    RUNTIME,
    SAVE_EVERY,
    SEED,
    data_options,
    epochs_option,
    output,
    split_option,
)
from furlkit.catalogue.installed import encoders
from furlkit.catalogue.papers import FCL, FEDCA, FEDSTYLE, FLESD, SCAN, WANG, WU

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

_METRICS = output("metrics")
_MODEL = Argument("model", File("checkpoint", "model"), "CHECKPOINT")
_MODEL_IF_TRAINED = _MODEL._replace(metavar="[CHECKPOINT]", required=False)
_MODELS = Argument("models", File("checkpoint", "model"), "CHECKPOINT...", several=True)
_CLIENT_FILES = Argument(
    "files", File("partition|checkpoint|private", "partition|model|private|upload"),
    "[PARTITION] CHECKPOINT [PRIVATE|UPLOAD]...", several=True)
_TEST_DATA = Option("test-data", Data(), help="Labelled images to test on.",
                    recorded=False, usual="the test split of --data")
_SCORED = group(IN_OUT,
    *data_options("Labelled images to learn from; its test split is the test set."),
    _TEST_DATA,
    _METRICS,
)
_SCORED_FROZEN = group(IN_OUT,
    *_SCORED.options[:-1],
    Option("by-domain", Flag(), False,
           "Learn from each domain's images alone and test on that domain's: accuracy "
           "is the mean over the domains, and the JSON has those of each (FedStyle's "
           "generalisation).", newer=True),
    _METRICS,
)
_SCORED_CLASSIFIER = group(IN_OUT,
    *data_options("Its test split is the test set; with --test-data it only gives the "
           "classes.", required=False),
    _TEST_DATA,
    _METRICS,
)
_SCORED_CLUSTERS = group(IN_OUT,
    *data_options("Images that k-means is fitted to; its test split is the test set. "
           "Without --kmeans, --test-data alone will do.", required=False),
    _TEST_DATA,
    _METRICS,
)
# An untrained network has no file; its options decide nothing that the file of a trained
# one would record, so a score's `checkpoint` has them.
_UNTRAINED = group("Reference: the untrained network",
    Option("untrained", Flag(), False,
           "Score new weights, drawn from --seed as init draws them: the architecture "
           "of CHECKPOINT or, without one, that of the options below for --data.",
           recorded=False),
    Option("encoder", Choice(lambda: encoders()), None, "The network, where no CHECKPOINT is given.",
           needs="untrained", recorded=False, usual="cnn5", metavar="NAME"),
    WIDTH._replace(default=None, needs="untrained", recorded=False, usual="1"),
    STEM._replace(default=None, needs="untrained", recorded=False, usual="auto"),
    Option("image-size", Whole(8, 2**16), help="Side of the input.",
           needs="untrained", recorded=False, usual="the data's"),
)
_FRACTION = (
    Option("fraction", Number(above=0, high=1),
           help="Part of the images that have labels: 0.01 and 0.1 in the paper; "
                "rounded, at least 2 images.", required=True),
    Option("choice", Choice(("random", "stratified")), "random",
           "How they are drawn from each client's images: all alike, or the fraction "
           "of every class."),
)
_PARTITION = Option("partition", File("partition", "partition"),
                    help="Which images of --data each client holds.", recorded=False)
_NETWORK = group("Network",
    Option("hidden", Whole(0, 2**16), 512,
           "Width of the MLP's hidden layer; 0 makes it one linear layer."),
    Option("random-init", Flag(), False,
           "Take the model's architecture but new weights, drawn from --seed: the "
           "reference without pretraining."),
)
# The paper's 100 epochs; in rounds of the 5 that its clients train for.
_ROUNDS = Option("rounds", Whole(1), 20, "Rounds.")
_FEDERATED_EPOCHS = epochs_option(5, "Epochs of each round; the last one is reported.")
_CENTRAL_EPOCHS = epochs_option(100, "Epochs; the last one is reported.")
_MODES = named(
    Mode("federated", "clients train and are averaged", (_ROUNDS, _FEDERATED_EPOCHS)),
    Mode("central", "all labels are in one place", (_CENTRAL_EPOCHS,)),
)
_MODE = Family("mode", lambda: _MODES, "federated", "Where training takes place.")
_SOLVERS = named(
    Mode("gradient", "heads are trained in batches, as papers do", (
        Option("probes", Whole(1, 100), 5,
               "Heads with their own initial weights and order of images; accuracy is "
               "their mean, accuracy_std their standard deviation."),
        _CENTRAL_EPOCHS,
        Option("batch-size", Whole(1), 512, "Images of each batch."),
        *varied(OPTIMISER, {"momentum": 0.0}),
        Option("milestones", Numbers(whole=True), (),
               "Epochs after which the rate is divided by 10: 60,80."),
    )),
    Mode("lbfgs", "one convex fit to standardised h, without randomness; its L2 penalty "
                  "is chosen on a fifth of the training images"),
)
_SOLVER = Family("solver", lambda: _SOLVERS, "gradient", "How the classifier is fitted.")
_REPEATS = Option("repeats", Whole(1, 100), 1,
                  "Train this often, each time with other labels, initial weights and "
                  "orders; accuracy is the mean, accuracy_std the standard deviation.")
_RATES = (
    Option("head-lr", Number(above=0), help="Learning rate of the new classifier.",
           usual="as --lr"),
    Option("milestones", Numbers(whole=True), (),
           "Epochs after which learning rates change: 12,16. They count through all "
           "rounds.", newer=True),
    Option("milestone-factor", Number(above=0), 0.1,
           "What the rates are multiplied by at each of them.", needs="milestones"),
)
_FINETUNING = (
    group("Optimisation", BATCH_SIZE, *OPTIMISER, *_RATES, _REPEATS),
    AUGMENTATION.varied(crop_scale=(0.5, 1.0), jitter_probability=0.0, grey=0.0),
    _NETWORK,
    group("Execution", PRECISION, SAVE_EVERY, *RUNTIME),
)

PROTOCOLS = named(
    Protocol("linear", "Train a linear classifier on the frozen h.",
        "furlkit.evaluation.linear:fit_linear",
        groups=(
            _MODEL_IF_TRAINED,
            _SCORED_FROZEN,
            _SOLVER,
            _UNTRAINED,
            RUNNING,
            GENERAL,
        ),
        equation="softmax on h",
        printed="nothing printed",
    ),
    Protocol("knn", "Classify by the k nearest training images, by cosine of h.",
        "furlkit.evaluation.knn:predict_knn",
        groups=(
            _MODEL_IF_TRAINED,
            _SCORED_FROZEN,
            group("Vote",
                Option("k", Whole(1), 200, "Neighbours that vote."),
                Option("temperature", Number(above=0), 0.1,
                       "t of the vote's weights exp(cosine / t)."),
            ),
            group(_UNTRAINED.title, *_UNTRAINED.options,
                SEED._replace(default=None, needs="untrained", usual="0")),
            RUNNING,
            GENERAL.without("seed"),
        ),
        paper=WU,
        equation="section 3.4",
        printed="as printed",
    ),
    Protocol("personal",
        "Score each client's own model, with a classifier of the client's images alone.",
        "furlkit.evaluation.personal:summary",
        groups=(
            _CLIENT_FILES,
            group(IN_OUT,
                *_SCORED.options,
                Option("by-domain", Flag(), False,
                       "Test each client on the test images of its own domain, not of "
                       "all (FedStyle's personalisation).", newer=True),
                Option("client", Clients(names=True),
                       help="The clients to score: 3, 0-4, 0,2,5-7; or a site's name.",
                       usual="those with a file, or all", recorded=False,
                       variable="clients"),
            ),
            group("Features",
                Option("generator", Choice(("none", "frozen", "trained")), "none",
                       "FedStyle Eq. 4, h + G(h, h_s) in place of h: the style model h_s "
                       "and the generator G are those of each client's private file; "
                       "trained: G is trained with the classifier.", newer=True),
            ),
            _SOLVER,
            RUNNING,
            GENERAL,
        ),
        paper=FEDSTYLE,
        equation="Eq. 4, Tables 1-3",
        printed="as printed with `--generator trained`; by default h_c alone",
    ),
    Protocol("classifier",
        "Score the classifier that a model has of its own; nothing is trained.",
        "furlkit.evaluation.linear:predict_linear",
        groups=(_MODEL, _SCORED_CLASSIFIER, RUNNING, GENERAL.without("seed")),
        paper=FLESD,
        equation="Fig. 2",
        printed="nothing printed",
    ),
    Protocol("cluster",
        "Score a model's clusters, or k-means on h, by the classes they match best.",
        "furlkit.evaluation.clusters:matching",
        groups=(
            _MODEL,
            _SCORED_CLUSTERS,
            group("Clusters",
                Option("kmeans", Whole(1, 2**16),
                       help="Cluster h by k-means into so many clusters; it is fitted "
                            "on the CPU, whatever --device is.",
                       replaces="threshold", usual="the model's own clusters"),
                Option("repeats", Whole(1, 100), 1,
                       "Of k-means, each from other starts; accuracy is the mean, "
                       "accuracy_std the standard deviation.", needs="kmeans"),
                Option("threshold", Number(0, 1), 0.99,
                       "An image counts as sure if the probability of its cluster is so "
                       "large."),
                Option("surest", Whole(0, 1000), 12,
                       "Images of each cluster, the surest ones, that the file names for "
                       "plot clusters."),
                SEED._replace(default=None, needs="kmeans", usual="0"),
            ),
            RUNNING,
            GENERAL.without("seed"),
        ),
        equation="accuracy by Hungarian matching, NMI, ARI",
        printed="nothing printed",
    ),
    Protocol("semi", "Finetune encoder and MLP on the few images that have labels.",
        "furlkit.stages.evaluate.finetune:choose",
        groups=(
            _MODEL,
            group(IN_OUT, *_SCORED.options, _PARTITION),
            group("Labels", *_FRACTION, GROUPS),
            _MODE,
            *_FINETUNING,
            GENERAL,
        ),
        paper=FEDCA,
        equation="Table 2",
        printed="nothing printed; federated or central: `--mode`",
    ),
    Protocol("finetune",
        "Finetune encoder and MLP by supervised FedAvg on the clients' labels.",
        "furlkit.stages.evaluate.finetune:run",
        groups=(
            _MODEL,
            group(IN_OUT, *_SCORED.options, _PARTITION._replace(required=True)),
            group("Labels",
                _FRACTION[0]._replace(default=1.0, required=False),
                _FRACTION[1],
                GROUPS,
            ),
            group("Optimisation", _ROUNDS, _FEDERATED_EPOCHS),
            *_FINETUNING,
            GENERAL,
        ),
        paper=FEDCA,
        equation="Table 2",
        printed="nothing printed",
    ),
    Protocol("transfer", "Finetune encoder and MLP on all labels of another dataset.",
        "furlkit.stages.evaluate.finetune:run",
        groups=(
            _MODEL,
            _SCORED,
            group("Optimisation",
                Option("image-size", Whole(8, 2**16),
                       help="Side that images are resized to.", usual="the model's"),
                _CENTRAL_EPOCHS,
            ),
            *_FINETUNING,
            GENERAL,
        ),
        paper=FEDCA,
        equation="Table 3",
        printed="nothing printed",
    ),
    Protocol("angles",
        "Measure the angles between models' representations of the same images.",
        "furlkit.evaluation.angles:angles",
        groups=(
            _MODELS,
            group(IN_OUT,
                *data_options("The images for all models; labels are not needed."),
                split_option("test"),
                _METRICS,
            ),
            group("Measurement", LAYER),
            RUNNING,
            GENERAL.without("seed"),
        ),
        paper=FEDCA,
        equation="Fig. 4",
        printed="nothing printed",
    ),
    Protocol("drift",
        "Measure representations, and how similar they are, without labels.",
        "furlkit.evaluation.drift:cka_matrix",
        groups=(
            _MODELS,
            group(IN_OUT,
                *data_options("The images for all models; labels are optional."),
                split_option("train"),
                *PART,
                _METRICS,
            ),
            group("Measurement",
                Option("images", Whole(0), 2000,
                       "Draw this many of them, as pairs cost their square; 0 takes "
                       "all."),
                LAYER,
                Option("temperature", Number(above=0), 0.5,
                       "t of the weights exp(cosine / t) of false negatives."),
            ),
            AUGMENTATION,
            RUNNING,
            GENERAL,
        ),
        paper=WANG,
        equation="and CKA",
        printed="as printed",
    ),
    Protocol("neighbours",
        "Measure how many neighbours are of the image's own class.",
        "furlkit.evaluation.neighbours:own_class",
        groups=(
            Argument("files", File("neighbours", "neighbours"), "NEIGHBOURS...",
                     several=True),
            group(IN_OUT,
                *data_options("The images of the files; only their labels are read."),
                split_option("train"),
                _METRICS,
            ),
            GENERAL.without("preset", "seed"),
        ),
        paper=SCAN,
        printed="nothing printed",
    ),
    Protocol("negatives",
        "Measure how many negatives are of the image's own class, from a partition.",
        "furlkit.evaluation.negatives:measured",
        groups=(
            Argument("partition", File("partition", "partition")),
            group(IN_OUT, _METRICS),
            group("Negatives",
                NEGATIVES._replace(
                    help="Which ratio is the file's false_negative_ratio; it has all "
                         "three.", newer=False),
                Option("queue", Whole(1), 4096, "Rows of a client's own images."),
                DICTIONARY_SIZE._replace(
                    default=None, usual="as many rows of each client as --queue",
                    help="K, rows that all clients share together."),
            ),
            GENERAL.without("preset", "seed"),
        ),
        paper=FCL,
        equation="Eq. 4-5",
        printed="as printed, and by the true shares of the classes",
    ),
)
