"""partition: which client holds which images."""

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
    """Clients share no image, unless --with-replacement or --repeat says so; the public
    part, which is drawn first, belongs to none of them. Where every client is of one
    domain, as by --scheme domains, the file records which.

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
               "Read a packed file whole and compare its checksum; by default only "
               "its header and labels are read.", recorded=False),
        output("partition"),
    ),
    SCHEME,
    group("All schemes",
        Option("clients", Whole(1), 5, "Number of clients."),
        Option("min-size", Whole(0), 1,
               "Draw again while a client has fewer images."),
        Option("redraws", Whole(0), 100,
               "How often to draw again before giving up."),
        Option("public-client", Whole(0),
               help="Make this client's part public; it does not train."),
        GROUPS,
    ),
    GENERAL,
)
