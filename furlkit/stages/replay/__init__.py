"""replay: the commands that make a file again, and whether it is then the same."""

from furlkit.stages.replay.remake import run

__all__ = ["run"]
