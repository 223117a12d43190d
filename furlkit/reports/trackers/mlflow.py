"""MLflow: a database in the folder, no server; `mlflow ui` shows the runs.

MLflow commits a batch as a whole, and the database is read before a point is added.
"""

import os
import re
from pathlib import Path

from furlkit.reports.trackers.points import Point

EXPERIMENT = "furlkit"
BATCH = 1000  # MLflow refuses larger batches.
MOST = 50_000  # Runs in an answer of MLflow.
FORBIDDEN = re.compile(r"[^\w./ -]")


class Writer:
    """Adds metrics to MLflow's runs; a run has the name of the furlkit run."""

    def __init__(self, folder: Path):
        os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")
        from mlflow import MlflowClient

        folder.mkdir(parents=True, exist_ok=True)
        place = folder.absolute()
        self._client = MlflowClient(tracking_uri=f"sqlite:///{place}/mlflow.db")
        known = self._client.get_experiment_by_name(EXPERIMENT)
        self._experiment = known.experiment_id if known else self._create(place)
        self._ids: dict[str, str] = {}
        self._values: dict[tuple[str, str, int], float] = {}
        self._waiting: dict[str, list[Point]] = {}
        for run in self._client.search_runs([self._experiment], max_results=MOST):
            self._read(run)

    def _create(self, place: Path) -> str:
        artifacts = (place / "artifacts").as_uri()
        return self._client.create_experiment(EXPERIMENT, artifacts)

    def _read(self, run) -> None:
        name, number = run.info.run_name, run.info.run_id
        self._ids[name] = number
        for tag in run.data.metrics:
            for found in self._client.get_metric_history(number, tag):
                self._values[name, tag, found.step] = found.value

    def value(self, point: Point) -> float | None:
        """Value of this point in the database; None without the point."""
        return self._values.get((point.run, _tag(point), point.step))

    def add(self, point: Point) -> None:
        """Add a point to the next batch of the run."""
        self._values[point.run, _tag(point), point.step] = point.value
        waiting = self._waiting.setdefault(point.run, [])
        waiting.append(point)
        if len(waiting) == BATCH:
            self._send(point.run)

    def _send(self, run: str) -> None:
        from mlflow.entities import Metric

        if run not in self._ids:
            created = self._client.create_run(self._experiment, run_name=run)
            self._ids[run] = created.info.run_id
        batch = [
            Metric(_tag(p), p.value, int(1000 * p.seconds), p.step)
            for p in self._waiting.pop(run)
        ]
        self._client.log_batch(self._ids[run], batch)

    def flush(self) -> None:
        """Send the last batches."""
        for run in list(self._waiting):
            self._send(run)

    def close(self) -> None:
        """Send the last batches, and end the runs."""
        self.flush()
        for number in self._ids.values():
            self._client.set_terminated(number)


def _tag(point: Point) -> str:
    return FORBIDDEN.sub("_", point.tag)
