"""Teachers for public images, for distill."""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import (
    Choice,
    Flag,
    Number,
    Option,
    Teacher,
    Whole,
    named,
)
from furlkit.catalogue.groups import LAYER, PART

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

TEACHERS = named(
    Teacher("ensemble", "similarities of public images by the clients' models",
        "furlkit.objectives.similarity:Distiller",
        lesson="furlkit.stages.distill.ensemble:lesson",
        file="ENSEMBLE",
        options=(
            LAYER._replace(
                default=None, usual="the ensemble's",
                help="Output of the student to compare with the ensemble."),
            Option("temperature", Number(above=0), help="tau_S.",
                   usual="the ensemble's tau_T"),
            Option("ema", Number(0, 1), 0.999,
                   "zeta, momentum of the student's slow copy."),
            Option("anchors", Whole(2), 2048, "m, length of the queue of anchors."),
        ),
        paper=papers.FLESD,
        equation="Eq. 7-10",
        printed="as printed; of h or of z (the authors' code): `--layer`",
    ),
    Teacher("self", "confident predictions of the model",
        "furlkit.objectives.selflabel:learner",
        lesson="furlkit.stages.distill.selflabel:lesson",
        options=(
            Option("confidence", Number(0, 1), 0.99,
                   "sigma, smallest probability of a class for using an image."),
            Option("form", Choice(("weak-strong", "same")), "weak-strong",
                   "weak-strong: the label from a view with only crop and flip, the loss "
                   "from a fully augmented view (SCAN); same: label and loss from a fully "
                   "augmented view (FedUSC Eq. 5)."),
            Option("class-weights", Flag(negative=True), True,
                   "Weight the classes of a batch equally."),
            Option("mean-over", Choice(("confident", "all")), "confident",
                   "Divisor of the loss: the number of used images, or the size of the "
                   "batch (Eq. 5)."),
            *PART,
        ),
        paper=papers.SCAN,
        equation="section 2.3; FedUSC Eq. 5",
        printed="differs: a weak view labels a strong view (SCAN); Eq. 5 is `--form "
                "same --no-class-weights --mean-over all`",
    ),
    Teacher("probabilities", "class probabilities of public images by the clients' models",
        "furlkit.objectives.soft_labels:step",
        lesson="furlkit.stages.distill.probabilities:lesson",
        file="PROBABILITIES",
        paper=papers.DSFL,
        equation="cross-entropy",
        printed="as printed",
    ),
    Teacher("labels", "the labels of public images, for FedMatch's sigma",
        "furlkit.objectives.fedmatch:labelled_step",
        lesson="furlkit.stages.distill.labels:lesson",
        options=(
            Option("label-weight", Number(above=0), 1.0,
                   "lambda_s, weight of the cross-entropy."),
            *PART,
        ),
        paper=papers.FEDMATCH,
        equation="disjoint learning",
        printed="as printed",
    ),
    Teacher("contrast", "contrast of two views of public images (NT-Xent)",
        "furlkit.objectives.simclr:step",
        lesson="furlkit.stages.distill.contrast:lesson",
        options=(
            Option("temperature", Number(above=0), 0.5, "tau of the contrast."),
            *PART,
        ),
        paper=papers.LWFEDSSL,
        equation="server-side calibration",
        printed="as printed in the abstract, with SimCLR's loss",
    ),
    Teacher("models", "the clients' models, weighted for every image",
        "furlkit.objectives.mkd:Student",
        lesson="furlkit.stages.distill.models:lesson",
        file="MODEL...",
        options=(
            Option("temperature", Number(above=0), 0.1, "tau of the contrast."),
            Option("distillation", Number(0, 1), 0.9,
                   "lambda, weight of the distillation; 1 - lambda weighs BYOL's loss."),
            Option("ema", Number(0, 1), 0.99,
                   "Share of the student's slow copy kept in a step."),
            Option("query", Choice(("student", "teacher")), "student",
                   "Row with a gradient in the contrast: the student's prediction; or the "
                   "teachers' mixture (the authors' code)."),
            Option("integration", Choice(("adaptive", "mean")), "adaptive",
                   "Weights of the teachers: by attention, for every image; or equal."),
            Option("adapter", Whole(1), 10, "k, width of the attention.",
                   needs="integration=adaptive"),
            Option("queue", Whole(1, 2**24), 1024, "Rows of earlier batches to repel."),
            *PART,
        ),
        paper=papers.FEDMKD,
        equation="adaptive knowledge integration",
        printed="differs: the student is the query; `--query teacher` is the authors' "
                "code; attention and queue start anew in a round",
    ),
    Teacher("anchor", "the global model's z, for a client's model",
        "furlkit.objectives.mkd:anchored_step",
        lesson="furlkit.stages.distill.anchor:lesson",
        file="GLOBAL",
        options=PART,
        paper=papers.FEDMKD,
        equation="global knowledge anchored alignment",
        printed="differs: as in the authors' code, but the global model is in eval mode",
    ),
)
