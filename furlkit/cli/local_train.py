"""local-train: what a client does in a round."""

from furlkit.catalogue.entries import (
    Argument,
    File,
    Flag,
    Option,
    Part,
    Text,
    Whole,
    command,
    group,
)
from furlkit.catalogue.families import OBJECTIVE, UPDATE
from furlkit.catalogue.groups import (
    AUGMENTATION,
    CLIENT,
    EXECUTION,
    GENERAL,
    IN_OUT,
    OPTIMISATION,
    OWN_IMAGES,
    data_options,
    epochs_option,
    output_of_each,
)
from furlkit.catalogue.installed import exchanges, terms


def _term_groups() -> list[Part]:
    return [term.group for term in terms().values()]


def _exchange_parts() -> list[Part]:
    """Options of exchanges, unless an objective or a term lists them."""
    return [e.part for e in exchanges().values() if e.part]


# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("local-train",
    "Train clients from the global model, each on its own images.",
    """With a PARTITION of one dataset clients are simulated. Without it the client is a
    site, and all images of --data are its own; the server learns of them what --tell says.
    Killed or stopped, the same command resumes and ends with the same bytes. Loss,
    throughput and a collapse meter go to a .log.jsonl beside the output.

    \b
    Examples:
      furlkit local-train exp/partition.safetensors exp/r000/global.safetensors \\
          --data digits --client 0-4 -o 'exp/r001/client_{client}.safetensors'
      furlkit local-train global.safetensors --data photos --client st-mary \\
          -o st-mary.safetensors
    """,
    Argument("partition", File("partition", "partition"), first=True),
    Argument("model", File("checkpoint", "global", "received"), "GLOBAL"),
    group(IN_OUT,
        CLIENT,
        *data_options(OWN_IMAGES),
        Option("private", File("private", "private", "recalled", per_client=True),
               help="The client's private file of its last round; may hold "
                    "{client}.", recorded=False),
        Option("private-out", File("private", direction="kept", per_client=True),
               help="Where to write the client's private file; may hold {client}.",
               recorded=False),
        output_of_each("checkpoint", "sent"),
        Option("send", Text("PART,..."),
               help="Parts of the model that leave the client; it keeps the others "
                    "in its private file.", usual="encoder and heads"),
        Option("tell", Text("FACT,..."),
               help="What the upload tells of the client's images: examples (how "
                    "many), classes (how many of each), loss; or nothing.",
               usual="examples,loss"),
    ),
    OBJECTIVE,
    _term_groups,
    UPDATE,
    _exchange_parts,
    group("Optimisation",
        epochs_option(5, "Local epochs E."),
        *OPTIMISATION.options,
        Option("schedule-rounds", Whole(1), 1,
               "Rounds that the schedule spans; 1 restarts it each round."),
        Option("phases", Text("PART:EPOCHS,..."),
               help="Train only some parts at a time: projector:5,encoder:5.",
               replaces="epochs"),
        Option("restart-optimiser", Flag(negative=True), False,
               "Start every epoch with a new optimiser, without the momentum of the "
               "epoch before (FedStyle's FedRep and Ditto).", newer=True),
    ),
    AUGMENTATION,
    EXECUTION,
    GENERAL,
)
