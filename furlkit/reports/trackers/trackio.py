"""Trackio: a database in the folder, no server; `trackio show` shows the runs.

Trackio commits a batch as a whole, and the database is read before a point is added.
"""

import os
from pathlib import Path

from furlkit.reports.trackers.points import Point

PROJECT = "furlkit"


class Writer:
    """Adds logs to Trackio's runs; a run has the name of the furlkit run."""

    def __init__(self, folder: Path):
        folder.mkdir(parents=True, exist_ok=True)
        os.environ["TRACKIO_DIR"] = str(folder.absolute())  # Read by the import.
        from trackio import SQLiteStorage

        self._storage = SQLiteStorage
        self._values: dict[str, dict[tuple[str, int], float]] = {}
        self._waiting: dict[str, list[Point]] = {}

    def _of(self, run: str) -> dict[tuple[str, int], float]:
        """Points of a run, read from the database once."""
        if run not in self._values:
            logs = self._storage.get_logs(PROJECT, run)
            self._values[run] = {
                (tag, log["step"]): value for log in logs for tag, value in log.items()
            }
        return self._values[run]

    def value(self, point: Point) -> float | None:
        """Value of this point in the database; None without the point."""
        return self._of(point.run).get((point.tag, point.step))

    def add(self, point: Point) -> None:
        """Add a point to the next batch of the run."""
        self._of(point.run)[point.tag, point.step] = point.value
        self._waiting.setdefault(point.run, []).append(point)

    def flush(self) -> None:
        """Send the batches."""
        for run in list(self._waiting):
            batch = self._waiting.pop(run)
            self._storage.bulk_log(
                PROJECT,
                run,
                [{point.tag: point.value} for point in batch],
                steps=[point.step for point in batch],
                timestamps=[point.time for point in batch],
            )

    def close(self) -> None:
        """Send the batches."""
        self.flush()
