"""Pictures, one module for each kind."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, NamedTuple

from furlkit.errors import FurlkitError, UsageError

FORMATS = (".png", ".pdf", ".svg")


class Frame(NamedTuple):
    """Title of a picture, and width and height in inches if given."""

    title: str | None = ""
    size: tuple[float, float] | None = None


UNFRAMED = Frame()


def figure(name: str) -> Callable[..., Any]:
    """Load a function of this folder, which imports matplotlib."""
    return resolve_name(f"furlkit.reports.figures.{name}")


def check_format(output: Path, flag: str = "-o", stage: str = "plot") -> None:
    """Refuse a picture of an unknown format, or without matplotlib."""
    if output.suffix.lower() not in FORMATS:
        known = ", ".join(FORMATS)
        raise UsageError(f"{flag} {output}: cannot draw '{output.suffix}'; use {known}")
    if find_spec("matplotlib") is None:
        raise FurlkitError(
            f"{stage} needs matplotlib; install it with: pip install 'furlkit[plot]'"
        )
