"""Writers of points into trackers, one module per tracker.

Every module has a class `Writer`, made with the folder of the tracker. A point that the
tracker contains is not added a second time, so a writer reads first the points of the
folder; a state file is needed only if the tracker cannot be read.
"""

from importlib.util import find_spec
from pathlib import Path
from pkgutil import resolve_name
from typing import Protocol

from furlkit.errors import FurlkitError
from furlkit.reports.trackers.points import Point

PACKAGES = ("mlflow", "wandb", "trackio")  # Equal names of module, package and extra.


class Tracker(Protocol):
    """Interface of the writers."""

    def value(self, point: Point) -> float | None:
        """Value of this point in the tracker; None without the point."""

    def add(self, point: Point) -> None:
        """Add a point that the tracker does not contain."""

    def flush(self) -> None:
        """Make the added points visible to readers."""

    def close(self) -> None:
        """Flush, and end the tracker's runs."""


def open_tracker(name: str, folder: Path) -> Tracker:
    """Open the tracker in a folder; refuse if the tracker's package is missing."""
    spec = find_spec(name) if name in PACKAGES else None
    # A folder of this name in the current folder is a package without an origin.
    if name in PACKAGES and (spec is None or spec.origin is None):
        raise FurlkitError(
            f"log --to {name} needs {name}; install it with: "
            f"pip install 'furlkit[{name}]'"
        )
    return resolve_name(f"furlkit.reports.trackers.{name}:Writer")(folder)
