"""The lobby: options, help, rewording of errors. Nothing heavy is imported here."""

from furlkit.cli.program import main

__all__ = ["main"]
