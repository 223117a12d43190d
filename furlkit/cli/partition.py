"""partition: assign images to clients."""

from furlkit.catalogue.entries import Flag, Option, Whole, command, group
from furlkit.catalogue.families import SCHEME
from furlkit.catalogue.groups import (
    GENERAL,
    GROUPS,
    IMAGES,
    IN_OUT,
    data_options,
    output,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("partition", "Partition a dataset's images among clients.",
    """Clients share no image, except with --with-replacement or --repeat. The public part is
    drawn first and belongs to no client. If every client has a single domain, as with
    --scheme domains, the file records the clients' domains.

    \b
    Examples:
      furlkit partition --data digits --scheme classes --classes-per-client 2 \\
          -o exp/partition.safetensors
      furlkit partition --data scans --groups patients.csv -o exp/partition.safetensors
      furlkit partition --data styles.safetensors --scheme domains \\
          --clients-per-domain 5 --concentration 0.2 -o exp/partition.safetensors
    """,
    group(IN_OUT,
        *data_options("Dataset name, image folder, packed file, .npz, idx files, or a "
               "file of labels."),
        IMAGES,
        Option("verify", Flag(), False,
               "Read the whole packed file and compare the checksum; the default "
               "reads only header and labels.", recorded=False),
        output("partition"),
    ),
    SCHEME,
    group("All schemes",
        Option("clients", Whole(1), 5, "Number of clients."),
        Option("min-size", Whole(0), 1,
               "Smallest part of a client; draw again while a part is smaller."),
        Option("redraws", Whole(0), 100,
               "Number of further draws before giving up."),
        Option("public-client", Whole(0),
               help="Make this client's part public; the client does not train."),
        GROUPS,
    ),
    GENERAL,
)
