"""Rules of the server for combining uploads."""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import (
    Choice,
    File,
    Flag,
    Number,
    Option,
    Rule,
    Text,
    Whole,
    named,
)
from furlkit.catalogue.exchanges import DICTIONARY_SIZE

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

# Options of every rule for models.
_WEIGHTS = Option("weights", File("json", words=("examples", "uniform")), "examples",
                  metavar="examples|uniform|FILE.json",
                  help="Weights of the clients: numbers of images, equal weights, or a "
                       'file {"CLIENT": WEIGHT}.')
_BN = Option("bn", Choice(("average", "keep")), "average",
             "Average BatchNorm statistics, or leave the statistics out for clients to keep.")
_REPORT = Option("report", File("metrics", direction="written"),
                 help="File for a report on every client: norm of the update, angle to the "
                      "other updates, share, effect on the result, and a mark for unusual "
                      "uploads. Rules other than mean are repeated for every client; with "
                      "40 clients the report takes 20 to 30 times longer than the result. "
                      "With --strict, a marked upload is an error: aggregate writes the "
                      "report, but no output.",
                 recorded=False, metavar="FILE.json")
_MAX_SHARE = Option("max-share", Number(above=0, high=1),
                    help="Largest share of a client, of 1; the excess goes to the other "
                         "clients. Equal shares are always allowed. The default limits "
                         "only shares by claimed numbers of images.",
                    usual="0.5 for three or more clients without a partition, otherwise 1")
_COUNTS = (
    _MAX_SHARE,
    Option("partition", File("partition", "partition"),
           help="Partition of the clients: limits the claimed numbers of images, and "
                "refuses clients that are not in the partition.",
           recorded=False, metavar="PARTITION"),
)
# The number of images is a client's claim; robust rules do not weight by a claim.
_ROBUST = (_WEIGHTS._replace(default="uniform"), *_COUNTS, _BN, _REPORT)

# Options of rules that average updates and then take a step at the server.
_MEAN = (_WEIGHTS, *_COUNTS, _BN, _REPORT)
_SERVER_LR = Option("lr", Number(above=0), 0.01, "eta, learning rate of the server.")
_ADAPTIVE = (
    _SERVER_LR,
    Option("beta-1", Number(low=0, below=1), 0.9, "Decay of m, the mean update."),
    Option("beta-2", Number(low=0, below=1), 0.99, "Decay of v, the mean square."),
    Option("adaptivity", Number(above=0), 1e-3,
           "tau, added to sqrt(v): a larger tau gives less adaptive steps."),
)

# Options for differential privacy; the options of a fixed clip norm come first.
_PRIVATE = (
    Option("noise", Number(1e-6, 1e6),
           help="Differential privacy for each client: add Gaussian noise to the sum of "
                "the clipped updates; z, deviation of the noise divided by --clip. Noise "
                "comes from the operating system: equal commands give different models, "
                "and replay is impossible. Needs --clip, --delta and --cohort.",
           usual="no noise", newer=True),
    Option("delta", Number(above=0, below=1), needs="noise", newer=True,
           help="Probability of a larger loss of privacy than epsilon; far below 1 "
                "divided by the number of clients."),
    Option("cohort", Whole(1, 10**9), needs="noise", newer=True,
           help="M, number of clients of a round, a public number and the divisor of the "
                "noisy sum; with sampling, the expected number. Without sampling, fewer "
                "or more uploads are refused."),
    Option("sampling-rate", Number(above=0, high=1), 1.0, needs="noise", newer=True,
           help="Probability of each client to join a round, by a separate and secret "
                "draw; lowers epsilon."),
    Option("clip-statistics", Number(1e-9, 1e9), needs="noise", newer=True,
           help="S: with --bn average, a change of BatchNorm statistics of length S counts "
                "as much as an update of length C, and gets noise of z S. --bn keep leaves "
                "the statistics out.", usual="--clip"),
    Option("clip-quantile", Number(0, 1), needs="noise", newer=True,
           help="Adaptive clip norm: share of updates that are not shortened. --clip is "
                "the norm of the first round; the header has the norm of the next round.",
           usual="a fixed --clip"),
    Option("count-noise", Number(above=0, high=1e9), needs="clip-quantile", newer=True,
           help="Deviation of the noise of the count of updates that are not shortened. "
                "The noise of the sum grows, so that both together cost --noise.",
           usual="the larger of --noise and --cohort / 20"),
    Option("clip-rate", Number(above=0, high=10), 0.2, needs="clip-quantile", newer=True,
           help="eta_C, learning rate of the logarithm of the clip norm."),
)

RULES = named(
    Rule("mean", "the weighted mean of models", "furlkit.aggregators.mean:mean",
        options=(
            _WEIGHTS,
            *_COUNTS,
            _BN,
            _REPORT,
            Option("staleness", Number(low=1),
                   help="Also accept models of earlier rounds: the weight of a model s "
                        "rounds older than the newest is divided by X^s. ASTW has e/2, "
                        "1.35914.", usual="a single round"),
            Option("complete", Flag(), False,
                   "Take the tensors that no upload has from --parent, for uploads of "
                   "local-train --train-layers.", newer=True),
        ),
        averages=True,
        paper=papers.FEDAVG,
        equation="Algorithm 1; FedCA Eq. 2; weights of ASTW",
        printed="as printed; without FedStyle's weights 1/|D_k|, under which models "
                "vanish",
    ),
    Rule("median", "the median of every number",
        "furlkit.aggregators.median:median",
        options=_ROBUST,
        paper=papers.YIN,
        equation="Definition 1",
        printed="as printed; weighted with `--weights`",
    ),
    Rule("trimmed-mean", "the mean of every number without the largest and smallest",
        "furlkit.aggregators.trimmed_mean:trimmed_mean",
        options=(*_ROBUST,
            Option("trim", Number(low=0, below=0.5), 0.2,
                   "beta, share of the clients to cut off at either end."),
        ),
        paper=papers.YIN,
        equation="Definition 2",
        printed="as printed; weighted with `--weights`",
    ),
    Rule("geometric-median", "the point with the smallest sum of distances to the models",
        "furlkit.aggregators.geometric_median:geometric_median",
        options=(*_ROBUST,
            Option("smoothing", Number(above=0), 1e-6,
                   "nu, the smallest distance; smaller distances are replaced."),
        ),
        paper=papers.RFA,
        equation="smoothed Weiszfeld algorithm",
        printed="as printed; BatchNorm statistics by their median",
    ),
    Rule("krum", "the model, or the mean of the models, with the nearest neighbours",
        "furlkit.aggregators.krum:krum",
        options=(*_ROBUST,
            Option("assumed-hostile", Whole(0), 2,
                   "f, largest number of hostile clients; needs 2 f + 3 uploads or more."),
            Option("chosen", Whole(1), 1,
                   "Number of models to average; more than 1 is multi-Krum."),
        ),
        paper=papers.KRUM,
        equation="Krum and multi-Krum",
        printed="as printed; BatchNorm statistics by their median",
    ),
    Rule("clip", "the mean of updates, shortened to a limit",
        "furlkit.aggregators.clip:clipped_mean",
        options=(*_ROBUST,
            Option("clip", Number(above=0, high=1e9), help="C, the longest update.",
                   usual="the median length"),
            *_PRIVATE,
        ),
        paper=papers.SUN,
        equation="norm clipping; with `--noise` McMahan et al. 2018, Algorithm 1; "
                 "with `--clip-quantile` Andrew et al. 2021, Algorithm 1",
        parent=True,
        private="furlkit.aggregators.private_mean:private_mean",
        printed="as printed with `--clip`; by default C is the median length; "
                "`--noise` also clips BatchNorm statistics, or leaves them out",
    ),
    Rule("l-dawa", "the mean, layers weighted by the angle to the global model",
        "furlkit.aggregators.l_dawa:l_dawa",
        options=(*_ROBUST,
            Option("scaling", Choice(("shares", "paper")), "shares",
                   "Divide the clients' cosines by the sum of the cosines, or (the paper) "
                   "by the number of clients, which shrinks every layer."),
        ),
        averages=True,
        paper=papers.LDAWA,
        parent=True,
        printed="differs: cosines are at least 0 and divided by the sum; `--scaling"
                " paper` divides by the clients",
    ),
    Rule("eua", "updates of equal length, weighted so that every client gains alike",
        "furlkit.aggregators.eua:eua",
        options=(*_ROBUST,
            Option("length", Choice(("mean", "code")), "mean",
                   "Length of the step: of a weighted mean of the models; or of the authors' "
                   "code, a fixed length by --lr."),
            _SERVER_LR._replace(default=1.0, needs="length=code"),
        ),
        averages=True,
        paper=papers.FEDU2,
        equation="EUA",
        parent=True,
        printed="differs: the length of a mean; `--length code` is the authors' code",
    ),
    Rule("fedavgm", "the mean of updates with momentum at the server",
        "furlkit.aggregators.fedopt:fedavgm",
        options=(*_MEAN,
            _SERVER_LR._replace(default=1.0),
            Option("momentum", Number(low=0, below=1), 0.9,
                   "Share of the last step to repeat in the next step."),
        ),
        paper=papers.HSU,
        equation="FedAvgM; Reddi et al., Algorithm 1",
        parent=True,
        state=("m",),
        averages=True,
        printed="as printed; BatchNorm statistics are averaged",
    ),
    Rule("fedadam", "the mean of updates as the gradient of Adam at the server",
        "furlkit.aggregators.fedopt:fedadam",
        options=(*_MEAN, *_ADAPTIVE),
        paper=papers.FEDOPT,
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
        paper=papers.FEDOPT,
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
            Option("clients", Whole(1),
                   help="N, all clients of the federation; give it if a round has fewer.",
                   usual="those of the round"),
        ),
        paper=papers.SCAFFOLD,
        equation="Algorithm 1, lines 16-17",
        parent=True,
        adds=("control",),
        averages=True,
        printed="as printed: equal weights; other weights with `--weights`",
    ),
    Rule("dictionary", "the clients' shared rows, concatenated",
        "furlkit.aggregators.dictionary:dictionary",
        reads="features",
        writes="features",
        module="rows",
        options=(
            DICTIONARY_SIZE,
            _MAX_SHARE._replace(
                help="Largest share of a client in --dictionary-size, of 1; the client's "
                     "last rows are cut off."),
            Option("distinct", Number(above=0, high=1), usual="keep all rows",
                   help="Largest cosine between two rows of a client, like 0.99; a row "
                        "nearer to an earlier row of the client is dropped."),
            Option("for", Text("CLIENT"),
                   help="Receiver of the dictionary; leave out the rows of this client "
                        "(FCL).",
                   newer=True, variable="made_for"),
        ),
        paper=papers.FEDCA,
        equation="Eq. 9-10, Algorithm 1",
        printed="as printed; rows to share are drawn at random, our choice",
    ),
    Rule("centroids", "clusters of rows, weighted by the number of images per row",
        "furlkit.aggregators.centroids:combine",
        reads="features",
        writes="features",
        same=("layer", "length of a row"),
        check="furlkit.aggregators.centroids:check_upload",
        options=(
            Option("centroids", Whole(1), 128, "K, the number of clusters."),
            Option("iterations", Whole(1), 100, "Largest number of steps."),
            Option("equal-sizes", Flag(), False,
                   "Form clusters of equal numbers of images, like Orchestra."),
            Option("epsilon", Number(above=0), 0.05,
                   "Softness of the assignment to clusters of equal size.",
                   needs="equal-sizes"),
        ),
        paper=papers.ORCHESTRA,
        equation="global clustering",
        printed="differs: Sinkhorn's plan moves centroids directly, the authors' code by "
                "gradient steps; local centroids count by images, there equally; "
                "`--equal-sizes` for Orchestra's clusters of equal size",
    ),
    Rule("correlations", "the mean of the clients' correlation matrices",
        "furlkit.aggregators.correlations:correlations",
        reads="correlations",
        writes="correlations",
        same=("d",),
        paper=papers.FEDSC,
        equation="aggregation of correlation matrices",
        printed="as printed in the authors' program: equal weights",
    ),
    Rule("masked-sum", "the mean of masked models, of which the server sees only the sum",
        "furlkit.aggregators.masked_sum:masked_mean",
        reads="masked",
        module="masked",
        paper=papers.BONAWITZ,
        equation="masking with one-time pads",
        parent=True,
        averages=True,
        printed="as printed; without recovery of sites that drop out; `mask upload` "
                "chooses the weights",
    ),
    Rule("kernels", "the mean cosines of public images by the clients' models",
        "furlkit.aggregators.similarity:kernels",
        reads="features|similarity",
        writes="similarity",
        images=True,
        check="furlkit.files.similarity:check_cosines",
        paper=papers.HETEROSSFL,
        equation="mean kernel",
        printed="differs: cosines, so that clients with long rows have no larger weight; "
                "equal weights",
    ),
    Rule("ensemble", "the mean similarity of public images by the clients' models",
        "furlkit.aggregators.similarity:ensemble",
        reads="features|similarity",
        writes="ensemble",
        module="similarities",
        options=(
            Option("temperature", Number(above=0), 0.1,
                   "tau_T of exp(cosine / tau_T)."),
            Option("matrix", Flag(), False,
                   "Write the n x n matrix instead of the clients' rows."),
            Option("trim", Number(low=0, below=0.5), usual="no trimming",
                   help="beta, share of the clients to cut off at either end of every "
                        "similarity; 0.49 is the median of up to 50 clients."),
        ),
        paper=papers.FLESD,
        equation="Eq. 4-6",
        printed="as printed; `--trim` for a trimmed mean, our addition",
    ),
    Rule("probabilities", "mean class probabilities of public images, sharpened",
        "furlkit.aggregators.probabilities:probabilities",
        reads="features",
        writes="features",
        images=True,
        same=("number of classes",),
        check="furlkit.files.features:check_probabilities",
        options=(
            Option("temperature", Number(above=0), 0.1,
                   "T of softmax(mean probabilities / T)."),
        ),
        paper=papers.DSFL,
        equation="entropy reduction averaging",
        printed="as printed",
    ),
)
