"""The command line: one module for each command. Nothing heavy is imported here."""

from furlkit.cli.program import main

__all__ = ["main"]
