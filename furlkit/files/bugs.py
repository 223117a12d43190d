"""Unexpected errors: the traceback goes to a file, one line of the message says where."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from furlkit.errors import FurlkitError, is_out_of_memory

EXPECTED = (FurlkitError, OSError)


@contextmanager
def kept(
    output: Path | None = None, expected: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Save the traceback of an error that is not an expected error.

    `output`: the output of the stage; the journal beside `output` may exist.
    """
    try:
        yield
    except (Exception, SystemExit) as error:  # A plugin may call sys.exit.
        if is_out_of_memory(error):
            raise MemoryError from error
        if isinstance(error, (*EXPECTED, *expected)):
            raise
        # Here, because few commands need the modules for tracebacks.
        from furlkit.files.tracebacks import report

        raise FurlkitError(report(error, output)) from error
