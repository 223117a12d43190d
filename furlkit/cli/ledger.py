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
from furlkit.catalogue.groups import COUNT, FORMAT, IN_OUT, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("ledger",
    "Count the bytes that clients sent and received, by round and kind of file.",
    """RUN is the folder of a run, searched for *.safetensors, or single files of it. All
    is read from the files' headers. A file was sent if it was given to aggregate: so
    FLESD's models, which stay with the clients, cost nothing. A client that trains
    receives the global model and the dictionary in every round, and targets once.
    Bytes are those of whole files. The public images are not counted, nor is what a
    client knows by itself: its partition, private files, a model of its own. (The first
    model was given to it, and counts, whichever architecture it has.)

    --plan is the paper's Eq. 11, w |D_pub| d_k <= w' |f_k|, in bytes: representations
    up and the model down in every round of FLESD, against the model up and down in
    every round of weight averaging. It counts tensors; a header adds some kB to a file.

    \b
    Examples:
      furlkit ledger exp/flesd
      furlkit ledger --plan --images 8333 --width 128 --encoding float16 \\
          --parameters 11500000 --clients 5 --rounds 2 --rounds-averaging 10
    """,
    Argument("runs", File("folder"), "RUN...", required=False, several=True),
    group(IN_OUT,
        output("metrics", required=False,
               help="Write the result as a metrics file too; --plan writes none."),
        FORMAT,
    ),
    group("Planning ahead: FLESD Eq. 11",
        Option("plan", Flag(), False,
               "Calculate before anything is trained; takes no RUN."),
        Option("images", COUNT, help="How many public images.", needs="plan"),
        Option("width", COUNT,
               help="d, the numbers that an image is represented by.",
               needs="plan"),
        Option("encoding", Choice(("float32", "float16", "int8")), "float32",
               "How clients write numbers, as in embed.", needs="plan"),
        Option("similarity", Flag(), False,
               "Clients send the cosines between all images instead.",
               needs="plan"),
        Option("top", Number(above=0, high=100),
               help="Of the similarities, this many percent of each row.",
               needs="similarity"),
        Option("model", File("checkpoint"),
               help="The model whose bytes count; only its header is read.",
               needs="plan", metavar="CHECKPOINT"),
        Option("parameters", COUNT,
               help="Or its number of parameters, 4 bytes each.", needs="plan"),
        Option("clients", COUNT, 1, "Clients that train in a round.",
               needs="plan"),
        Option("rounds", COUNT, 1, "Rounds of FLESD.", needs="plan"),
        Option("rounds-averaging", COUNT, help="Rounds of weight averaging.",
               needs="plan", usual="as --rounds"),
    ),
    group("General", *VERBOSITY),
)
