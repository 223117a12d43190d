"""Updates: the model at the start of a client's round."""

from furlkit.catalogue import papers
from furlkit.catalogue.entries import Choice, Number, Option, Update, Whole, named

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

UPDATES = named(
    Update("replace", "the global model", "furlkit.updates.replace:replace",
        paper=papers.FEDAVG,
        printed="as printed",
    ),
    Update("keep", "the client's model, given instead of GLOBAL",
        "furlkit.updates.replace:replace",
        starts_from_own=True,
        paper=papers.FLESD,
        printed="nothing printed",
    ),
    Update("continue", "the client's model of this round, given instead of GLOBAL",
        "furlkit.updates.replace:replace",
        own=True,
        starts_from_own=True,
        continues=True,
        equation="a second training in a round: FedUSC Eq. 6",
        printed="differs: Eq. 6 is one sum of losses; two trainings of a round, in "
                "sequence, are a reading of the text beside Eq. 4",
    ),
    Update("own", "the client's model of the last round; the global model at first",
        "furlkit.updates.own:own",
        own=True,
        paper=papers.FEDSTYLE,
        equation="appendix, FedProx",
        printed="as printed",
    ),
    Update("fedema", "a mixture of global model and client's model, by the distance",
        "furlkit.updates.fedema:fedema",
        options=(
            Option("tau", Number(0, 1), 0.7,
                   "Share of the client's model in the first mixture."),
        ),
        own=True,
        paper=papers.FEDEMA,
        equation="update of local models",
        printed="as printed",
    ),
    Update("fedu", "the global model; if the models are far apart, with the client's "
                   "predictor",
        "furlkit.updates.fedu:fedu",
        options=(
            Option("mu", Number(low=0), 0.4,
                   "Distance of the encoders, the mean over convolutions of the L2 "
                   "distance, below which the client takes the global predictor."),
        ),
        own=True,
        heads=("predictor",),
        paper=papers.FEDU,
        equation="DAPU",
        printed="differs: the divergence is the mean over convolutions (the authors' "
                "code)",
    ),
    Update("dum", "the global model; if the models are far apart, a mixture with the "
                  "client's model",
        "furlkit.updates.dum:dum",
        options=(
            Option("mu", Number(low=0), 0.4,
                   "Distance of backbone and clusters up to which the client takes the "
                   "global model; 1e30 always takes the global model."),
            Option("xi", Number(0, 1), 0.5,
                   "Share of the client's model in the mixture beyond --mu."),
            Option("distance", Choice(("mean-conv", "sum-squares", "relative")),
                   "mean-conv",
                   "Distance: the mean over convolutions of the L2 distance; the squared "
                   "norm over the weights (FedUSC's slides); or the norm divided by the "
                   "global model's norm."),
        ),
        own=True,
        equation="FedUSC Eq. 4",
        printed="differs: the distance is the mean over convolutions; Eq. 4 is "
                "`--distance sum-squares`",
    ),
    Update("astw", "the global encoder; clients exchange heads only in some rounds and "
                   "keep heads in the remaining rounds",
        "furlkit.updates.astw:astw",
        options=(
            Option("cycle", Whole(1), 15, "Rounds of a cycle."),
            Option("exchanges", Whole(1), 5,
                   "Number of last rounds of a cycle with an exchange of every part; the "
                   "remaining rounds exchange the encoder."),
        ),
        sends="furlkit.updates.astw:sent_parts",
        paper=papers.ASTW,
        equation="layer-wise asynchronous update",
        printed="differs: whole heads are the deep layers, and clients continue with the "
                "clients' heads",
    ),
)
