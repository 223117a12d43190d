"""The errors a user can cause, and the exit code each one ends the program with.

A message says which file or flag, what was found, what was wanted, and how to cure it.
"""


class FurlkitError(Exception):
    """Something failed for a reason the user can act on."""

    exit_code = 1


class UsageError(FurlkitError):
    """The command line asks for something that cannot be."""

    exit_code = 2


class InputError(FurlkitError):
    """An input is missing, broken, or does not fit the others."""

    exit_code = 65


class DiskError(FurlkitError):
    """Reading or writing failed."""

    exit_code = 74


class StoppedError(FurlkitError):
    """Stopped early; the same command carries on."""

    exit_code = 75
