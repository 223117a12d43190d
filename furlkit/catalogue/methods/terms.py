"""Terms: losses to add to any objective."""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import Choice, Flag, Number, Option, Term, Whole, named
from furlkit.catalogue.exchanges import TARGETS

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

TERMS = named(
    Term("proximal", "the weights stay near the global model's weights",
        "furlkit.terms.proximal:proximal",
        switch="proximal",
        inputs=("received",),
        options=(
            Option("proximal", Number(low=0), 0.0,
                   "mu of (mu/2) ||w - w_global||^2; 0 turns the term off."),
        ),
        paper=papers.FEDPROX,
        equation="Eq. 2",
        printed="as printed",
    ),
    Term("alignment", "h and z of public images stay near the outputs of a common model",
        "furlkit.terms.alignment:alignment",
        switch="align",
        exchanges=("targets",),
        inputs=("public", "h_align", "z_align"),
        options=(
            *TARGETS.options,
            Option("beta", Number(low=0), 0.01, "Weight of the term."),
            Option("align-reduction", Choice(("sum", "mean")), "sum",
                   "Sum or mean over the public images of a step."),
            Option("align-batch-size", Whole(1), 128,
                   "Number of public images in a step."),
        ),
        paper=papers.FEDCA,
        equation="Eq. 11-14",
        printed="as printed; the client's net is in eval mode, our choice; "
                "`--align-reduction mean`: a mean",
    ),
    Term("neighbours", "images move to the nearest rows of the queue and the dictionary",
        "furlkit.terms.neighbours:neighbours",
        switch="neighbours",
        options=(
            Option("neighbours", Whole(0), 0,
                   "N, number of nearest rows of an image; 0 turns the term off.",
                   newer=True),
            Option("neighbour-candidates", Whole(1), 4096,
                   "K, candidate rows, drawn at random in every step."),
            Option("neighbour-temperature", Number(above=0), 0.1,
                   "tau_nm of the choice among the candidates."),
            Option("neighbour-weight", Number(low=0), 0.1, "lambda, weight of the term."),
        ),
        exchanges=("dictionary",),
        inputs=("rows",),
        paper=papers.FCL,
        equation="Eq. 7-12",
        printed="as printed",
    ),
    Term("scaffold", "gradients are corrected by control variates",
        "furlkit.terms.scaffold:scaffold",
        switch="scaffold",
        options=(
            Option("scaffold", Flag(), False,
                   "Add c - c_k, the control variates of server and client, to every "
                   "gradient. c arrives with the model, c_k stays in the private file; "
                   "aggregate --rule scaffold makes the next c.",
                   newer=True),
        ),
        exchanges=("control",),
        inputs=("correction",),
        paper=papers.SCAFFOLD,
        equation="Eq. 3-4, Option II",
        printed="as printed, with `aggregate --rule scaffold`",
    ),
    Term("centroids", "images are drawn to the nearest global centroid",
        "furlkit.terms.centroids:centroids",
        switch="centroid-weight",
        options=(
            Option("centroid-weight", Number(low=0), 0.0,
                   "lambda of the squared distance between z and the nearest row of "
                   "--centroids, both of length 1; 0 turns it off.", newer=True),
        ),
        exchanges=("centroids",),
        inputs=("centroids",),
        paper=papers.FEDPROTO,
        equation="regularised local loss",
        printed="differs: no classes; the nearest centroid takes the place of the "
                "prototype of the class",
    ),
    Term("decorrelation", "the numbers of h stay uncorrelated, against a collapse",
        "furlkit.terms.decorrelation:decorrelation",
        switch="decorrelation",
        options=(
            Option("decorrelation", Number(low=0), 0.0,
                   "beta of beta/d^2 ||K||^2, K the correlations of the d numbers of h in "
                   "a batch; 0 turns the term off.", newer=True),
            Option("decorrelation-form", Choice(("paper", "code")), "paper",
                   "Scale: the paper's, or the authors' code, whose term has about N "
                   "times the weight in a batch of N rows."),
        ),
        paper=papers.FEDDECORR,
        equation="L_FedDecorr",
        printed="as printed; `--decorrelation-form code` is the authors' code",
    ),
    Term("fedx", "the net agrees with the frozen global net in z and in relations of images",
        "furlkit.terms.fedx:fedx",
        switch="fedx",
        options=(
            Option("fedx", Number(low=0), 0.0,
                   "Weight of the global contrast and of both relational losses, between the "
                   "net and the global net at the start of the round; 0 turns the term off. "
                   "A model of init --head predictor predicts the global net's z.",
                   newer=True),
            Option("fedx-temperature", Number(above=0), 0.1,
                   "tau of the contrast and of the relations."),
            Option("fedx-target-temperature", Number(above=0), 0.1,
                   "tau_t of the mean relation of both views, the target."),
        ),
        inputs=("received",),
        heads=("projector",),
        pairs=True,
        paper=papers.FEDX,
        equation="global contrastive and relational losses",
        printed="differs: relations to the other images of the batch, not to a second batch",
    ),
    Term("moon", "z agrees with the global net and departs from the client's last net",
        "furlkit.terms.moon:moon",
        switch="moon",
        options=(
            Option("moon", Number(low=0), 0.0,
                   "mu of the contrast between z of the global net (near) and z of the "
                   "client's net of the last round (far); 0 turns the term off. The term "
                   "starts in a client's second round, with --private.", newer=True),
            Option("moon-temperature", Number(above=0), 0.5, "tau of the contrast."),
        ),
        inputs=("received", "last"),
        heads=("projector",),
        paper=papers.MOON,
        equation="Eq. 3-4",
        printed="as printed, added to any objective; no term in a client's first round, as "
                "in the authors' code",
    ),
    Term("uniformity", "z is spread over the sphere like a Gaussian sample",
        "furlkit.terms.uniformity:uniformity",
        switch="uniformity",
        options=(
            Option("uniformity", Number(low=0), 0.0,
                   "lambda of the cost of transport between z and random directions, both "
                   "of length 1; 0 turns the term off.", newer=True),
            Option("uniformity-marginals", Number(above=0), 1.0,
                   "rho, weight of the marginals of the plan; a small value lets outliers "
                   "stay."),
            Option("uniformity-epsilon", Number(low=0.05), 0.1,
                   "epsilon, smoothness of the plan."),
            Option("uniformity-iterations", Whole(1), 30,
                   "Sinkhorn's iterations for the plan of a step."),
        ),
        heads=("projector",),
        paper=papers.FEDU2,
        equation="FUR",
        printed="differs: not the authors' term, a sliced Wasserstein distance in tangent "
                "spaces of the sphere; here a smooth plan, and unit rows and rho are our "
                "choices",
    ),
    Term("cka", "public images are related like in the mean of all clients, of any nets",
        "furlkit.terms.cka:cka",
        switch="cka",
        options=(
            Option("cka", Number(low=0), 0.0,
                   "mu of 1 - CKA between the net's cosines of public images and --kernel; "
                   "0 turns the term off.", newer=True),
            Option("cka-batch-size", Whole(2), 128, "Number of public images in a step."),
        ),
        exchanges=("kernel",),
        inputs=("kernel", "kernel_layer", "kernel_images"),
        paper=papers.HETEROSSFL,
        equation="local objective, linear CKA",
        printed="differs: cosines instead of products of rows, and 1 - CKA on a batch of "
                "public images; the paper was not at hand",
    ),
    Term("infusion", "a second loss, of views infused with the client's style",
        "furlkit.terms.infusion:infusion",
        switch="infusion",
        options=(
            Option("infusion", Number(low=0), 0.0,
                   "lambda, weight of the second loss; 0 turns the term off. --private has "
                   "the style model of pretrain-style.", newer=True),
            Option("freeze-generator", Flag(), False,
                   "Keep the initial weights of the generator G, which infuses style."),
        ),
        exchanges=("style",),
        inputs=("styles", "learner"),
        paper=papers.FEDSTYLE,
        equation="Eq. 3, Algorithm 3",
        printed="as printed; G is trained too, our choice; else `--freeze-generator`",
    ),
)
