"""local-train: the training of clients in a round."""

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
    SIGNERS,
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
    "Train clients from the global model on the clients' images.",
    """A PARTITION divides a dataset among simulated clients. Without a PARTITION the
    client, a name or a number, is a site that holds every image of --data; --tell limits
    the facts about the images that the server learns. The header of a site's file has neither the seed nor hashes of
    private files; a .record beside the file has the whole header, for replay, and stays
    at the site. After an interruption, the same command resumes and ends with
    the same bytes. A .log.jsonl beside the output records loss, throughput and a collapse
    meter.

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
               help="Client's private file of the last round; may contain {client}.",
               recorded=False),
        Option("private-out", File("private", "private", "kept", per_client=True),
               help="File for the client's private data; may contain {client}.",
               recorded=False),
        SIGNERS._replace(
            help="OpenSSH's allowed_signers: every received file needs a signature of "
                 "`server`, but --helper a signature of the client that trained the model; "
                 "see `furlkit sign`."),
        output_of_each("checkpoint", "sent"),
        Option("send", Text("PART,..."),
               help="Parts of the model to send; other parts stay in the private file.",
               usual="encoder and heads"),
        Option("tell", Text("FACT,..."),
               help="Facts about the images in the upload: examples (the number of "
                    "images), classes (the number per class), loss; or nothing.",
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
               "Rounds that the schedule spans; 1 restarts the schedule every round."),
        Option("phases", Text("PART:EPOCHS,..."),
               help="Train the parts in turn: projector:5,encoder:5.",
               replaces="epochs"),
        Option("restart-optimiser", Flag(negative=True), False,
               "Start every epoch with a new optimiser, without the previous epoch's "
               "momentum (FedStyle's FedRep and Ditto).", newer=True),
    ),
    AUGMENTATION,
    EXECUTION,
    GENERAL,
)
