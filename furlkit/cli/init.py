"""init: the model that every client starts from."""

from furlkit.catalogue.entries import (
    Choice,
    File,
    Group,
    Numbers,
    Option,
    Text,
    Whole,
    command,
    group,
)
from furlkit.catalogue.families import ENCODER, OBJECTIVE
from furlkit.catalogue.groups import (
    CHANNELS,
    DEPTH,
    GENERAL,
    IN_OUT,
    ISA,
    PAGES,
    WINDOW,
    data_options,
    output,
)
from furlkit.catalogue.installed import heads

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

def _head_widths() -> Group:
    """Widths of MLPs, numbers of prototypes and clusters, also for heads of plugins.

    Models without a projector ignore the widths of a projector, because recipes may set
    the option for every row. A number of clusters needs the head of clusters.
    """
    options = []
    for head in heads().values():
        text = head.help or f"Widths of {head.name}."
        option = Option(head.name, Numbers(whole=True), head.widths, text)
        if head.form in ("prototypes", "clusters"):
            option = option._replace(metavar="N", needs=f"head={head.name}")
        if head.form in ("mlp", "prototypes", "clusters", "other"):
            options.append(option)
    return group("Heads", *options)


COMMAND = command("init", "Make the global model of round 0.",
    """The model has the heads that --objective trains, and the heads named by --head.

    \b
    Example:
      furlkit init --data digits --encoder cnn5 --width 0.25 -o exp/r000/global.safetensors
    """,
    group(IN_OUT,
        *data_options("Dataset; sets image size, channels, classes, mean and std.",
               required=False),
        Option("from", File("checkpoint|encoder|weights|folder", "source"),
               help="Copy the encoder, and heads with equal names, from a checkpoint, "
                    "an exported folder, or a safetensors file of torchvision or timm; "
                    "stem, channels and size are adapted with a warning.",
               recorded=False, metavar="WEIGHTS",
               variable="source"),
        Option("run-name", Text("NAME"),
               help="Id of the run: models and uploads inherit the id, and aggregate "
                    "leaves out uploads of other runs. A name distinguishes two runs "
                    "with equal options and seed, and joins several models of round 0 "
                    "(clients with different networks) into a run.",
               usual="a hash of options, seed and weights", newer=True),
        output("checkpoint"),
    ),
    ENCODER,
    group("Heads",
        OBJECTIVE.choice._replace(
            metavar="", help="Add the heads that this objective trains."),
        Option("head", Choice(heads), (),
               "Additional head; may be repeated.", multiple=True,
               variable="more_heads"),
        Option("projector-norm", Choice(("hidden", "all")), "hidden",
               "BatchNorm in the projector: between the layers, or also on z, there "
               "without a shift. SimCLR's official head is `all` with a hidden layer as "
               "wide as h: --projector 2048,128.", newer=True),
        Option("heads", Whole(1, 64), 1,
               "Number of cluster heads with separate weights; training selects the "
               "head with the lowest loss.", newer=True, variable="cluster_heads"),
    ),
    _head_widths,
    group("Images",
        Option("image-size", Whole(), help="Side of the input in pixels.",
               usual="the data's"),
        CHANNELS,
        WINDOW._replace(usual="the data's"),
        PAGES._replace(usual="the data's"),
        DEPTH._replace(default=None, usual="the data's"),
        Option("classes", Whole(), help="Number of classes of the classifier.",
               usual="the data's"),
        Option("mean", Numbers(), help="Mean of each channel, for normalisation.",
               usual="from --from, else the data's"),
        Option("std", Numbers(), help="Deviation of each channel, for normalisation.",
               usual="from --from, else the data's"),
    ),
    group("Execution", ISA),
    GENERAL,
)
