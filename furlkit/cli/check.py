"""check: whether a dataset can be read, and what its images are."""

from furlkit.catalogue.entries import (
    Argument,
    Data,
    File,
    Option,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import (
    CHANNELS,
    DATA_FILES,
    GROUPS,
    IN_OUT,
    PAGES,
    VERBOSITY,
    WINDOW,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("check", "List all files of a dataset that cannot be read, with the reasons.",
    """Every image of a folder is decoded: formats, types, ranges of values, channels,
    pages and copies are listed, with a window for images of more than 8 bits. Every byte
    of a packed file is compared with its checksum. Exits with 65 if something cannot be
    read; `pack --skip-broken` leaves such files out. Says too where the decoded images of
    folders are kept, which may be removed at any time.

    \b
    Examples:
      furlkit check pictures
      furlkit check scans --sheet seen.png --window 0,4095 --image-size 64
      furlkit check train --test-data test
    """,
    Argument("data", Data(), "NAME|PATH"),
    group(IN_OUT, split_option("train"), *DATA_FILES,
        Option("test-data", Data(),
               help="Warn if these images are among the images, too.",
               recorded=False),
        GROUPS._replace(needs="test-data",
                        help="Warn if both have images of a group, such as a patient: "
                             "`folder` if folders of one name hold a group, or a CSV "
                             "file with the columns file and group."),
    ),
    group("Contact sheet",
        Option("sheet", File("picture", direction="written"),
               help="Draw up to 64 images as a network sees them into a PNG file.",
               recorded=False, metavar="FILE.png"),
        Option("model", File("checkpoint"), needs="sheet",
               help="Draw them as this model sees them, with its size and window.",
               recorded=False, metavar="CHECKPOINT"),
        Option("image-size", Whole(1), needs="sheet",
               help="Resize the shorter side to this, then cut out the centre."),
        CHANNELS._replace(needs="sheet", usual="3"),
        WINDOW._replace(needs="sheet"),
        PAGES._replace(needs="sheet"),
    ),
    group("General", *VERBOSITY),
)
