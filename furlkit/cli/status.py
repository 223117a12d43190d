"""status: the progress of a run."""

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

COMMAND = command("status", "Show the progress of a run, stale steps and the last scores.",
    """RUN is the folder of a run of `furlkit plan`, or a folder of such folders. status shows
    the steps that are done, running, failed, or stale because a setting or an input has
    changed since, with the reason, the last scores, the remaining time, the bytes on disk,
    and, with squeue or hq, tasks in the queue of Slurm or HyperQueue. Several runs take a
    line each. A step is done if the planned command wrote the present contents of the
    step's files from the present inputs; for files of earlier versions of furlkit, the
    times of the files decide.

    \b
    Examples:
      furlkit status exp/fedca
      furlkit status exp --watch
    """,
    Argument("runs", File("folder"), "RUN...", several=True),
    group(IN_OUT,
        Option("scores", Flag(), False,
               "Show instead a table of the scores of every round.", recorded=False),
        Option("watch", Flag(), False, "Repeat the display until the run is done.",
               recorded=False),
        Option("check", Flag(), False,
               "Exit with code 1 if a step is stale or has failed; otherwise the exit code "
               "is 0 even then.", recorded=False),
        Option("settle", Flag(), False,
               "Set the times of files, for make and sh to find the unfinished steps; "
               "used by printed plans.", recorded=False),
        Option("left", Flag(), False,
               "Print the unfinished tasks of each job as shell variables; used by "
               "scripts of plan --as slurm.", recorded=False),
        Option("by", Whole(1), help="Process that carries out the runs; a second "
               "process is refused.", recorded=False, metavar="PID", needs="settle"),
    ),
    group("General", *VERBOSITY),
)
