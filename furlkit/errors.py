"""The errors a user can cause, and the exit code each one ends the program with.

A message says which file or flag, what was found, what was expected, and what to do.
"""

import errno

_NO_MEMORY = (
    "out of memory",
    "allocate memory",
    "failed to map segment",
    "std::bad_alloc",
)


class FurlkitError(Exception):
    """Something failed for a reason the user can act on."""

    exit_code = 1


class UsageError(FurlkitError):
    """The command line asks for something impossible."""

    exit_code = 2


class InputError(FurlkitError):
    """An input is missing, broken, or does not fit the others."""

    exit_code = 65


class DiskError(FurlkitError):
    """Reading or writing failed."""

    exit_code = 74


class TooEarlyError(FurlkitError):
    """Something is still missing; the same command may succeed later."""

    exit_code = 75


def is_out_of_memory(error: BaseException) -> bool:
    """True if the system refused memory; torch and the linker only say so in words."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError | ImportError) and any(
        words in text for words in _NO_MEMORY
    )


class Stopped(BaseException):
    """A signal stopped the program early; the same command resumes.

    Not an Exception, so that no handler of errors on its way can mistake it for one:
    only the command line handles it. `number` is the signal's.
    """

    exit_code = 75

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.number = number
