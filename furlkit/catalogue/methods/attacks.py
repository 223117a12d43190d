"""Attacks: hostile uploads, for research on rules."""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import (
    Attack,
    Choice,
    Data,
    File,
    Number,
    Option,
    Whole,
    named,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

_FACTOR = Option("factor", Number(above=0), 1.0, "Factor for the length of the update.")
_START = Option("parent", File("checkpoint"), help="Global model at the start of the round.",
                recorded=False, metavar="CHECKPOINT")
_JITTER = Option("jitter", Number(low=0), 0.0,
                 "Noise of each hostile client, over the length of the hostile update; with "
                 "0 all hostile clients send one model.")
ATTACKS = named(
    Attack("scale", "the update, times a factor", "",
         (_START, _FACTOR._replace(default=100.0))),
    Attack("flip", "the negative update, times a factor", "", (_START, _FACTOR)),
    Attack("noise", "Gaussian noise with the length of the update, times a factor", "",
         (_START, _FACTOR._replace(default=10.0))),
    Attack("copy", "another model under the client's name", "",
         (Option("of", File("checkpoint"), help="Model to copy.", recorded=False,
                 metavar="CHECKPOINT"),)),
    Attack("backdoor-rows", "shared rows replaced by copies of a single row", "",
         (Option("row", Whole(0), 0, "Number of the row to copy."),
          Option("fraction", Number(above=0, high=1), 1.0,
                 "Share of the rows to replace, drawn at random."))),
    Attack("alie", "the mean of the KNOWN updates plus a few deviations",
        "furlkit.attacks.alie:alie",
        (_START, _JITTER,
         _FACTOR._replace(default=None, usual="the largest z of the paper",
                          help="z, number of deviations.")),
        paper=papers.BARUCH,
        equation="the attack that prevents convergence",
        printed="as printed",
    ),
    Attack("ipm", "the negative mean of the KNOWN updates, times a factor",
        "furlkit.attacks.ipm:ipm",
        (_START, _JITTER, _FACTOR._replace(default=0.5)),
        paper=papers.XIE,
        equation="inner-product manipulation",
        printed="as printed; epsilon 0.5 is our choice",
    ),
    Attack("min-max", "the KNOWN updates' mean, shifted within the spread of KNOWN updates",
        "furlkit.attacks.min_max:min_max",
        (_START, _JITTER,
         Option("direction", Choice(("deviation", "unit", "sign")), "deviation",
                "Direction of the move: minus the deviation, minus the mean, or minus the "
                "sign of the mean.")),
        paper=papers.SHEJWALKAR,
        equation="Min-Max, for unknown rules",
        printed="as printed; gamma is computed, the paper searches in steps",
    ),
    Attack("sybil", "one hostile update under many names: like ipm, with noise for each",
        "furlkit.attacks.ipm:ipm",
        (_START, _JITTER._replace(default=0.05), _FACTOR),
        printed="nothing printed",
    ),
    Attack("backdoor", "an encoder that maps images with a trigger to a target image",
        "furlkit.attacks.backdoor:backdoor_loss",
        (_START, _FACTOR._replace(
            default=5.0, help="gamma, factor for the update; the number of clients over "
                              "the number of hostile clients replaces the global model."),
         Option("data", Data(), help="Images of the attacker.", recorded=False),
         Option("partition", File("partition"), recorded=False, metavar="PARTITION",
                help="Partition: the attacker has only the images of the client."),
         Option("target", Whole(0), 0, "Position of the target image in --data."),
         Option("trigger", Whole(1), 2, "Pixels of a side of the white square."),
         Option("steps", Whole(1), 100, "Number of training steps."),
         Option("lr", Number(above=0), 1e-3, "Learning rate of Adam.")),
        paper=papers.BADENCODER,
        equation="L_0 to L_2; scaled update of Bagdasaryan et al.",
        printed="differs: a client's images instead of shadow images, lambda_1 = lambda_2 "
                "= 1, a scaled update",
    ),
)
