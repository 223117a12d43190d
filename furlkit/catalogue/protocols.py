"""Protocols to score models."""

from furlkit.catalogue import papers
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
    *data_options("Labelled images for training; the test split is the test set."),
    _TEST_DATA,
    _METRICS,
)
_SCORED_FROZEN = group(IN_OUT,
    *_SCORED.options[:-1],
    Option("by-domain", Flag(), False,
           "Train and test within each domain: accuracy is the mean over the domains, "
           "and the JSON has the accuracy of every domain (FedStyle's generalisation).",
           newer=True),
    _METRICS,
)
_SCORED_CLASSIFIER = group(IN_OUT,
    *data_options("Dataset; the test split is the test set. With --test-data, only the "
           "classes are used.", required=False),
    _TEST_DATA,
    _METRICS,
)
_SCORED_CLUSTERS = group(IN_OUT,
    *data_options("Images for k-means; the test split is the test set. Without --kmeans, "
           "--test-data is enough.", required=False),
    _TEST_DATA,
    _METRICS,
)
# An untrained network has no file; the score's `checkpoint` records these options, like
# the header of a trained network would.
_UNTRAINED = group("Reference: the untrained network",
    Option("untrained", Flag(), False,
           "Score new weights, drawn from --seed like in init, with the architecture of "
           "CHECKPOINT or, without CHECKPOINT, of the options below.",
           recorded=False),
    Option("encoder", Choice(lambda: encoders()), None, "Network, without CHECKPOINT.",
           needs="untrained", recorded=False, usual="cnn5", metavar="NAME"),
    WIDTH._replace(default=None, needs="untrained", recorded=False, usual="1"),
    STEM._replace(default=None, needs="untrained", recorded=False, usual="auto"),
    Option("image-size", Whole(8, 2**16), help="Side of the input in pixels.",
           needs="untrained", recorded=False, usual="the data's"),
)
_FRACTION = (
    Option("fraction", Number(above=0, high=1),
           help="Share of images with labels: 0.01 and 0.1 in the paper; rounded, at "
                "least 2 images.", required=True),
    Option("choice", Choice(("random", "stratified")), "random",
           "Draw of the labelled images: from a client's images, or from every class of "
           "a client."),
)
_PARTITION = Option("partition", File("partition", "partition"),
                    help="Assignment of the images of --data to clients.", recorded=False)
_NETWORK = group("Network",
    Option("hidden", Whole(0, 2**16), 512,
           "Width of the MLP's hidden layer; 0 for a linear classifier."),
    Option("random-init", Flag(), False,
           "Use the model's architecture with new weights, drawn from --seed: the "
           "reference without pretraining."),
)
# The paper's 100 epochs, in rounds of 5 epochs like in the paper's federated training.
_ROUNDS = Option("rounds", Whole(1), 20, "Number of rounds.")
_FEDERATED_EPOCHS = epochs_option(5, "Epochs per round; the last epoch is scored.")
_CENTRAL_EPOCHS = epochs_option(100, "Number of epochs; the last epoch is scored.")
_MODES = named(
    Mode("federated", "clients train and are averaged", (_ROUNDS, _FEDERATED_EPOCHS)),
    Mode("central", "a single model trains on every label", (_CENTRAL_EPOCHS,)),
)
_MODE = Family("mode", lambda: _MODES, "federated", "Place of the training.")
_SOLVERS = named(
    Mode("gradient", "training in batches, like in papers", (
        Option("probes", Whole(1, 100), 5,
               "Number of heads with different initial weights and orders of images; "
               "accuracy is the mean, accuracy_std the standard deviation."),
        _CENTRAL_EPOCHS,
        Option("batch-size", Whole(1), 512, "Number of images in a batch."),
        *varied(OPTIMISER, {"momentum": 0.0}),
        Option("milestones", Numbers(whole=True), (),
               "Epochs that end with a division of the rate by 10: 60,80."),
    )),
    Mode("lbfgs", "a convex fit to standardised h, without randomness, with an L2 penalty "
                  "chosen on a fifth of the training images"),
)
_SOLVER = Family("solver", lambda: _SOLVERS, "gradient", "Solver of the classifier.")
_REPEATS = Option("repeats", Whole(1, 100), 1,
                  "Number of trainings with different labels, initial weights and orders; "
                  "accuracy is the mean, accuracy_std the standard deviation.")
_RATES = (
    Option("head-lr", Number(above=0), help="Learning rate of the new classifier.",
           usual="as --lr"),
    Option("milestones", Numbers(whole=True), (),
           "Epochs, counted over the rounds, that end with a change of the learning rates: "
           "12,16.", newer=True),
    Option("milestone-factor", Number(above=0), 0.1,
           "Factor for the learning rates at a milestone.", needs="milestones"),
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
                Option("k", Whole(1), 200, "Number of voting neighbours."),
                Option("temperature", Number(above=0), 0.1,
                       "t of the vote's weights exp(cosine / t)."),
            ),
            group(_UNTRAINED.title, *_UNTRAINED.options,
                SEED._replace(default=None, needs="untrained", usual="0")),
            RUNNING,
            GENERAL.without("seed"),
        ),
        paper=papers.WU,
        equation="section 3.4",
        printed="as printed",
    ),
    Protocol("personal",
        "Score the clients' personal models, with classifiers of the clients' images.",
        "furlkit.evaluation.personal:summary",
        groups=(
            _CLIENT_FILES,
            group(IN_OUT,
                *_SCORED.options,
                Option("by-domain", Flag(), False,
                       "Test clients only on test images of the client's domain "
                       "(FedStyle's personalisation).", newer=True),
                Option("client", Clients(names=True),
                       help="Clients to score: 3, 0-4, 0,2,5-7, all; or a site's name.",
                       usual="clients with a file, or all", recorded=False,
                       variable="clients"),
            ),
            group("Features",
                Option("generator", Choice(("none", "frozen", "trained")), "none",
                       "FedStyle Eq. 4, h + G(h, h_s) instead of h, with h_s by the style "
                       "model and the generator G in the client's private file; trained: "
                       "G is trained with the classifier.", newer=True),
            ),
            _SOLVER,
            RUNNING,
            GENERAL,
        ),
        paper=papers.FEDSTYLE,
        equation="Eq. 4, Tables 1-3",
        printed="as printed with `--generator trained`; by default h_c alone",
    ),
    Protocol("classifier",
        "Score the classifier in a model, without training.",
        "furlkit.evaluation.linear:predict_linear",
        groups=(_MODEL, _SCORED_CLASSIFIER, RUNNING, GENERAL.without("seed")),
        paper=papers.FLESD,
        equation="Fig. 2",
        printed="nothing printed",
    ),
    Protocol("cluster",
        "Score a model's clusters, or k-means on h, by the best match with classes.",
        "furlkit.evaluation.clusters:matching",
        groups=(
            _MODEL,
            _SCORED_CLUSTERS,
            group("Clusters",
                Option("kmeans", Whole(1, 2**16),
                       help="Number of clusters for k-means on h, instead of the model's "
                            "clusters.",
                       replaces="threshold", usual="the model's clusters"),
                Option("repeats", Whole(1, 100), 1,
                       "Repeats of k-means with different starts; accuracy is the mean, "
                       "accuracy_std the standard deviation.", needs="kmeans"),
                Option("threshold", Number(0, 1), 0.99,
                       "Smallest probability of the cluster for a certain image."),
                Option("surest", Whole(0, 1000), 12,
                       "Number of the most certain images of each cluster to list for "
                       "plot clusters."),
                SEED._replace(default=None, needs="kmeans", usual="0"),
            ),
            RUNNING,
            GENERAL.without("seed"),
        ),
        equation="accuracy by Hungarian matching, NMI, ARI",
        printed="nothing printed",
    ),
    Protocol("semi", "Finetune encoder and MLP on a small share of labelled images.",
        "furlkit.stages.evaluate.finetune:choose",
        groups=(
            _MODEL,
            group(IN_OUT, *_SCORED.options, _PARTITION),
            group("Labels", *_FRACTION, GROUPS),
            _MODE,
            *_FINETUNING,
            GENERAL,
        ),
        paper=papers.FEDCA,
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
        paper=papers.FEDCA,
        equation="Table 2",
        printed="nothing printed",
    ),
    Protocol("transfer", "Finetune encoder and MLP on the labels of another dataset.",
        "furlkit.stages.evaluate.finetune:run",
        groups=(
            _MODEL,
            _SCORED,
            group("Optimisation",
                Option("image-size", Whole(8, 2**16),
                       help="Side of the resized images in pixels.", usual="the model's"),
                _CENTRAL_EPOCHS,
            ),
            *_FINETUNING,
            GENERAL,
        ),
        paper=papers.FEDCA,
        equation="Table 3",
        printed="nothing printed",
    ),
    Protocol("angles",
        "Measure the angles between the representations of several models.",
        "furlkit.evaluation.angles:angles",
        groups=(
            _MODELS,
            group(IN_OUT,
                *data_options("Images for the models; labels are not needed."),
                split_option("test"),
                _METRICS,
            ),
            group("Measurement", LAYER),
            RUNNING,
            GENERAL.without("seed"),
        ),
        paper=papers.FEDCA,
        equation="Fig. 4",
        printed="nothing printed",
    ),
    Protocol("drift",
        "Measure quality and similarity of representations without labels.",
        "furlkit.evaluation.drift:cka_matrix",
        groups=(
            _MODELS,
            group(IN_OUT,
                *data_options("Images for the models; labels are optional."),
                split_option("train"),
                *PART,
                _METRICS,
            ),
            group("Measurement",
                Option("images", Whole(0), 2000,
                       "Number of images to draw, since the cost grows with the square; 0 "
                       "takes every image."),
                LAYER,
                Option("temperature", Number(above=0), 0.5,
                       "t of the weights exp(cosine / t) of false negatives."),
            ),
            AUGMENTATION,
            RUNNING,
            GENERAL,
        ),
        paper=papers.WANG,
        equation="and CKA",
        printed="as printed",
    ),
    Protocol("neighbours",
        "Measure the share of neighbours with the class of the image.",
        "furlkit.evaluation.neighbours:own_class",
        groups=(
            Argument("files", File("neighbours", "neighbours"), "NEIGHBOURS...",
                     several=True),
            group(IN_OUT,
                *data_options("Images of the files; only the labels are read."),
                split_option("train"),
                _METRICS,
            ),
            GENERAL.without("preset", "seed"),
        ),
        paper=papers.SCAN,
        printed="nothing printed",
    ),
    Protocol("negatives",
        "Measure the share of negatives with the class of the image, by a partition.",
        "furlkit.evaluation.negatives:measured",
        groups=(
            Argument("partition", File("partition", "partition")),
            group(IN_OUT, _METRICS),
            group("Negatives",
                NEGATIVES._replace(
                    help="Ratio to write as false_negative_ratio; the file has the three "
                         "ratios too.", newer=False),
                Option("queue", Whole(1), 4096, "Number of rows of the client's images."),
                DICTIONARY_SIZE._replace(
                    default=None, usual="--queue rows of each client",
                    help="K, number of shared rows of the clients together."),
            ),
            GENERAL.without("preset", "seed"),
        ),
        paper=papers.FCL,
        equation="Eq. 4-5",
        printed="as printed, and by the true shares of the classes",
    ),
)
