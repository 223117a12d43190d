"""The errors a user can cause, and the exit code each one ends the program with.

A message says which file or flag, what was found, what was expected, and what to do.
"""

import errno
from collections.abc import Iterable

_NO_MEMORY = (
    "out of memory",
    "allocate memory",
    "failed to map segment",
    "std::bad_alloc",
)


def did_you_mean(word: str, known: Iterable[str], before: str = "") -> str:
    """The end of a message about an unknown word: the most similar one, or nothing.

    `before` is written before the similar word.
    """
    from difflib import get_close_matches  # Here, because few commands fail.

    near = get_close_matches(word.lower(), list(known), 1)
    return f"; did you mean {before}{near[0]}?" if near else ""


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
    return isinstance(error, RuntimeError | ImportError | OSError) and any(
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
