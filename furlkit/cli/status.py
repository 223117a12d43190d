"""status: how far a run has come."""

from typing import Any

from furlkit.cli.shared import arguments, command, tell


@command("status", arguments("runs", "RUN..."))
def status(values: dict[str, Any]) -> None:
    """RUN is the folder of a run that `furlkit plan` has planned. Shows what is done,
    what runs now and where, what is stale because a setting or an input has changed
    since, the last scores, the time that is left, and the bytes on disk.

    \b
    Examples:
      furlkit status exp/fedca
      furlkit status exp/fedca --watch
    """
    from furlkit.stages.status import run, settle

    if values["settle"]:
        settle(values["runs"], values["by"])
    else:
        tell(run({**values, "run": values["runs"][0]}))
