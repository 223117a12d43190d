"""status: how far a run has come."""

from furlkit.catalogue.entries import (
    Argument,
    File,
    Flag,
    Option,
    Whole,
    command,
    group,
)
from furlkit.catalogue.groups import IN_OUT, VERBOSITY

# Tables are read by rows: an option takes two lines here, and seven by the formatter.
# fmt: off

COMMAND = command("status", "Show how far a run has come, what is stale, and the last scores.",
    """RUN is the folder of a run that `furlkit plan` has planned, or a folder of such
    folders. Shows the steps that are done, running, failed, or stale because a setting or
    an input has changed since, the last scores, the time that is left, and the bytes on
    disk. Several runs take one line each. A step is done if its files have the contents
    that the planned command wrote, and were made of the present inputs; times of files
    decide only for files that an earlier version made.

    \b
    Examples:
      furlkit status exp/fedca
      furlkit status exp --watch
    """,
    Argument("runs", File("folder"), "RUN...", several=True),
    group(IN_OUT,
        Option("scores", Flag(), False,
               "Show the scores of all rounds as a table instead.", recorded=False),
        Option("watch", Flag(), False, "Show it again until the run is done.",
               recorded=False),
        Option("settle", Flag(), False,
               "Set the times of files so that make and sh find the same steps to do; "
               "printed plans call it.", recorded=False),
        Option("left", Flag(), False,
               "Print the unfinished tasks of each job as variables of the shell; "
               "scripts of plan --as slurm call it.", recorded=False),
        Option("by", Whole(1), help="The process that carries out the runs; a second "
               "one is refused.", recorded=False, metavar="PID", needs="settle"),
    ),
    group("General", *VERBOSITY),
)
