"""Errors that nobody expected: the traceback is kept in a file, one line says where.

A stage that has begun a journal keeps it there; else it goes to a new file among the
system's temporary files.
"""

import os
import tempfile
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from furlkit.errors import DiskError, FurlkitError, is_out_of_memory
from furlkit.files.journal import Journal

EXPECTED = (FurlkitError, OSError)
PACKAGE = Path(__file__).parent.parent


@contextmanager
def kept(
    output: Path | None = None, expected: tuple[type[Exception], ...] = ()
) -> Iterator[None]:
    """Keep the traceback of an error that is none of the expected ones.

    `output` is the file whose journal may have been begun.
    """
    try:
        yield
    except Exception as error:
        if is_out_of_memory(error):
            raise MemoryError from error
        if isinstance(error, (*EXPECTED, *expected)):
            raise
        raise FurlkitError(_sentence(error, _keep(error, output))) from error


def _sentence(error: Exception, place: str | None) -> str:
    where = f"the traceback is in {place}" if place else "its traceback was lost"
    text = f"{type(error).__name__}: {str(error)[:300]}" if str(error) else repr(error)
    return (
        f"{text} ({_location(error)}); this is a bug in furlkit; {where}; "
        f"please report it to {_address()}"
    )


def _keep(error: Exception, output: Path | None) -> str | None:
    text = "".join(traceback.format_exception(error))
    journal = Journal(output) if output else None
    if journal and journal.path.is_file():
        with suppress(DiskError):
            journal.write({"event": "error", "traceback": text})
            return str(journal.path)
    with suppress(OSError):
        handle, name = tempfile.mkstemp(".traceback", "furlkit-")
        with os.fdopen(handle, "w", errors="backslashreplace") as stream:
            stream.write(text)
        return name
    return None


def _location(error: Exception) -> str:
    """The last line of furlkit's own that was being run."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if Path(f.filename).is_relative_to(PACKAGE)] or frames[-1:]
    name = Path(own[-1].filename)
    inside = name.relative_to(PACKAGE.parent) if name.is_absolute() else name
    return f"{inside}, line {own[-1].lineno}"


def _address() -> str:
    """The issue tracker that the package names, as pyproject.toml gives it."""
    from importlib.metadata import PackageNotFoundError, metadata

    with suppress(PackageNotFoundError):
        for entry in metadata("furlkit").get_all("Project-URL") or ():
            label, _, address = entry.partition(",")
            if label.strip().lower() in ("issues", "bug tracker", "tracker"):
                return address.strip()
    return "whoever gave you furlkit"
