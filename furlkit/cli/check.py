"""check: find unreadable files of a dataset and describe the images."""

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
    REPLACE,
    VERBOSITY,
    WINDOW,
    split_option,
)

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("check", "List the unreadable files of a dataset, with the reasons.",
    """check decodes every image of a folder and lists formats, types, ranges of values,
    channels, pages and copies, with a window for images of more than 8 bits. Packed files
    are compared with their checksum. The exit code is 65 if a file cannot be read;
    `pack --skip-broken` leaves unreadable files out. check also prints the folder of the
    cache of decoded images, which you may remove at any time.

    \b
    Examples:
      furlkit check pictures
      furlkit check scans --sheet seen.png --window 0,4095 --image-size 64
      furlkit check train --test-data test
    """,
    Argument("data", Data(), "NAME|PATH"),
    group(IN_OUT, split_option("train"), *DATA_FILES,
        Option("test-data", Data(),
               help="Test images; warn about copies of training images.",
               recorded=False),
        GROUPS._replace(needs="test-data",
                        help="Warn if a group, such as a patient, has images in both "
                             "datasets: `folder` if the name of the folder is the "
                             "group, or a CSV file with the columns file and group."),
    ),
    group("Contact sheet",
        Option("sheet", File("picture", direction="written"),
               help="PNG file for up to 64 images, drawn as the network's input.",
               recorded=False, metavar="FILE.png"),
        Option("model", File("checkpoint"), needs="sheet",
               help="Draw the images with the size and window of this model.",
               recorded=False, metavar="CHECKPOINT"),
        Option("image-size", Whole(1), needs="sheet",
               help="Resize the shorter side to N pixels, then cut out the centre."),
        CHANNELS._replace(needs="sheet", usual="3"),
        WINDOW._replace(needs="sheet"),
        PAGES._replace(needs="sheet"),
    ),
    group("General", REPLACE, *VERBOSITY),
)
