"""report: one page about runs."""

from furlkit.catalogue.entries import (
    Argument,
    File,
    Flag,
    Option,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import IN_OUT, REPLACE, VERBOSITY, output

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("report", "Write one HTML page about runs: problems, scores, clients.",
    """RUN is the folder of a run of `furlkit plan`, any folder with files of furlkit,
    or a folder of such folders. A record, or a folder of records (aggregate
    --record), belongs to all runs. Runs that differ only in the seed are drawn as one
    line with a band. The page is a single file: it loads nothing from a network, and
    equal runs give equal bytes. Problems come first: warnings, refused uploads,
    outliers, collapsed representations, stale and failed steps.

    The page has no images unless --with-images is given. Clients' names, numbers of images
    and classes are on the page: look at it before you publish it.

    \b
    Examples:
      furlkit report exp/demo -o exp/demo/report.html
      furlkit report exp/seed* -o report.html --tables tables
      furlkit report exp/demo -o report.html --watch --refresh 10
    """,
    Argument("runs", File("folder"), "RUN...", several=True),
    group(IN_OUT,
        output("page"),
        Option("watch", Flag(), False,
               "Write the page again after each finished step, until the runs are done.",
               recorded=False),
        Option("refresh", Whole(1),
               help="The page reloads itself after this number of seconds.",
               recorded=False, metavar="SECONDS"),
        Option("with-images", Flag(), False,
               "Show a few images per client in the network's form.",
               recorded=False),
        Option("tables", File("folder", direction="written"),
               help="Folder for the tables of the page, as CSV files.",
               recorded=False, metavar="FOLDER"),
        Option("audit", File("metrics"), (),
               "Metrics file to show beside the files that left the sites; may be "
               "repeated.", multiple=True, recorded=False),
    ),
    group("General", REPLACE, *VERBOSITY),
)
