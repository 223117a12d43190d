"""ledger: the bytes that clients sent and received."""

from furlkit.catalogue.entries import (
    Argument,
    Choice,
    File,
    Flag,
    Number,
    Option,
    command,
    group,
)
from furlkit.catalogue.groups import COUNT, FORMAT, IN_OUT, REPLACE, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("ledger",
    "Count the bytes that clients sent and received, by round and kind of file.",
    """RUN is the folder of a run, searched for *.safetensors and *.record, or single files
    of a run. A file of aggregate --anonymous needs the record, which names the uploads.
    ledger reads only headers. A file was sent if aggregate read the file: FLESD's models
    stay with the clients and cost nothing. A client that trains receives the global model
    and the dictionary in every round, and targets once. Bytes are file sizes. Public
    images are not included, nor the client's partition, private files and personal model.
    (The first model, of any architecture, came from the server and is included.)

    --plan is FLESD's Eq. 11, w |D_pub| d_k <= w' |f_k|, in bytes: representations up and
    the model down in every round of FLESD, against the model up and down in every round
    of weight averaging. --plan adds up tensors; a header adds some kB to a file.

    \b
    Examples:
      furlkit ledger exp/flesd
      furlkit ledger --plan --images 8333 --width 128 --encoding float16 \\
          --parameters 11500000 --clients 5 --rounds 2 --rounds-averaging 10
    """,
    Argument("runs", File("folder"), "RUN...", required=False, several=True),
    group(IN_OUT,
        output("metrics", required=False,
               help="Also write the result as a metrics file; not with --plan."),
        Option("time", Flag(), False,
               "Add up the CPU seconds of local-train in the journals beside the models; "
               "these differ if a run is repeated."),
        FORMAT,
    ),
    group("Planning ahead: FLESD Eq. 11",
        Option("plan", Flag(), False,
               "Calculate the bytes before a training; takes no RUN."),
        Option("images", COUNT, help="Number of public images.", needs="plan"),
        Option("width", COUNT,
               help="d, the width of an image's representation.",
               needs="plan"),
        Option("encoding", Choice(("float32", "float16", "int8")), "float32",
               "Number format of the clients' files, as in embed.", needs="plan"),
        Option("similarity", Flag(), False,
               "Clients send the cosines between images instead of representations.",
               needs="plan"),
        Option("top", Number(above=0, high=100),
               help="Percentage of similarities sent from a row.",
               needs="similarity"),
        Option("model", File("checkpoint"),
               help="Model that clients receive; only the header is read.",
               needs="plan", metavar="CHECKPOINT"),
        Option("parameters", COUNT,
               help="Number of parameters, 4 bytes each, instead of --model.",
               needs="plan"),
        Option("clients", COUNT, 1, "Clients that train in a round.",
               needs="plan"),
        Option("rounds", COUNT, 1, "Rounds of FLESD.", needs="plan"),
        Option("rounds-averaging", COUNT, help="Rounds of weight averaging.",
               needs="plan", usual="as --rounds"),
    ),
    group("General", REPLACE, *VERBOSITY),
)
