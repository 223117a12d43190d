"""Errors that a user can cause, with exit codes.

A message names the file or flag, the value found, the value expected, and the cure.
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
    """End of a message about an unknown word: the most similar word, or an empty text.

    `before` precedes the similar word.
    """
    from difflib import get_close_matches  # Here, because few commands fail.

    near = get_close_matches(word.lower(), list(known), 1)
    return f"; did you mean {before}{near[0]}?" if near else ""


class FurlkitError(Exception):
    """A failure that the user can repair."""

    exit_code = 1


class UsageError(FurlkitError):
    """The command line is wrong."""

    exit_code = 2


class InputError(FurlkitError):
    """An input is missing, broken, or does not fit the other inputs."""

    exit_code = 65


class DiskError(FurlkitError):
    """Reading or writing failed."""

    exit_code = 74


class TooEarlyError(FurlkitError):
    """An input does not exist yet; the command may succeed later."""

    exit_code = 75


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether the system refused memory; for torch and the linker, by message."""
    if isinstance(error, MemoryError):
        return True
    if isinstance(error, OSError) and error.errno == errno.ENOMEM:
        return True
    text = str(error).lower()
    return isinstance(error, RuntimeError | ImportError | OSError) and any(
        words in text for words in _NO_MEMORY
    )


class Stopped(BaseException):
    """A signal stopped the program early; the repeated command resumes.

    A BaseException, so `except Exception` does not catch a stop: only the command line
    handles stops. `number` is the number of the signal.
    """

    exit_code = 75

    def __init__(self, message: str, number: int):
        super().__init__(message)
        self.number = number
