"""status: how far a run has come."""

from typing import Any

from furlkit.cli.shared import arguments, command, tell


@command("status", arguments("runs", "RUN..."))
def status(values: dict[str, Any]) -> None:
    """RUN is the folder of a run that `furlkit plan` has planned, or a folder of such
    folders. Shows the steps that are done, running, failed, or stale because a setting or
    an input has changed since, the last scores, the time that is left, and the bytes on
    disk; tasks in the queue of Slurm or HyperQueue if squeue or hq is there. Several runs take one line each. A step is done if its files have the contents
    that the planned command wrote, and were made of the present inputs; times of files
    decide only for files that an earlier version made.

    \b
    Examples:
      furlkit status exp/fedca
      furlkit status exp --watch
    """
    from furlkit.stages.status import left, run, settle

    if values["settle"]:
        settle(values["runs"], values["by"])
    elif values["left"]:
        tell(left(values["runs"]))
    else:
        tell(run(values))
