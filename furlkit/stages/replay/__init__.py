"""replay: print or run the commands that make a file again, and compare the files."""

from furlkit.stages.replay.remake import run

__all__ = ["run"]
