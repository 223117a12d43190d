"""Weights & Biases, offline; `wandb sync --append` uploads the folders later.

wandb cannot read the files of offline runs, so furlkit.json has the points of finished
folders, and the names of folders that are being written. If a kill ends a session, the
next session removes these folders and writes the points again.
"""

import json
import shutil
from hashlib import sha256
from pathlib import Path
from typing import Any

from furlkit.errors import InputError
from furlkit.files.container.atomic import write_bytes
from furlkit.files.metrics import read_json
from furlkit.reports.trackers.points import Point

PROJECT = "furlkit"
PREFIX = "offline-run-"


class Writer:
    """Logs points to offline runs; a session writes one folder per run."""

    def __init__(self, folder: Path):
        self.folder, self._state = folder, folder / "furlkit.json"
        self._runs: dict[str, Any] = {}
        self._open: list[str] = []
        # Values by run, curve and step.
        self._values: dict[str, dict[str, dict[str, float]]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if self._state.exists():
            self._recover()
        self._finished = json.dumps(self._values)

    def _recover(self) -> None:
        """Read the state, and remove the folders of a killed session."""
        state = read_json(self._state)
        if not isinstance(state, dict) or not isinstance(state.get("points"), dict):
            raise InputError(
                f"{self._state}: is not from furlkit log; choose another -o"
            )
        self._values = state["points"]
        for name in map(str, state.get("open", ())):
            if name.startswith(PREFIX) and "/" not in name:
                shutil.rmtree(self.folder / "wandb" / name, ignore_errors=True)

    def _save(self, points: str) -> None:
        text = f'{{"open": {json.dumps(self._open)}, "points": {points}}}\n'
        write_bytes(self._state, text.encode())

    def _run(self, name: str) -> Any:
        """Offline run; the state names the run's folder before the first point."""
        if name not in self._runs:
            self._runs[name] = run = self._start(name)
            self._open.append(Path(run.dir).parent.name)
            self._save(self._finished)
        return self._runs[name]

    def _start(self, name: str) -> Any:
        import wandb

        settings = wandb.Settings(
            silent=True, console="off", disable_git=True, save_code=False,
            x_disable_stats=True, x_disable_meta=True,
        )  # fmt: skip
        return wandb.init(
            project=PROJECT, name=name, id=sha256(name.encode()).hexdigest()[:12],
            dir=str(self.folder), mode="offline", reinit="create_new", settings=settings,
        )  # fmt: skip

    def value(self, point: Point) -> float | None:
        """Value of this point in finished folders or in this session."""
        curves = self._values.get(point.run, {})
        return curves.get(point.tag, {}).get(str(point.step))

    def add(self, point: Point) -> None:
        """Log a point; the axis of the curve is the epoch or the round."""
        run, curves = self._run(point.run), self._values.setdefault(point.run, {})
        axis = "round" if point.epoch is None else "epoch"
        if point.tag not in curves:
            run.define_metric(point.tag, step_metric=axis)
        # wandb counts rows; rows of later sessions follow the rows of this session.
        row = sum(map(len, curves.values()))
        run.log({point.tag: point.value, axis: point.step}, step=row)
        curves.setdefault(point.tag, {})[str(point.step)] = point.value

    def flush(self) -> None:
        """wandb writes rows by itself."""

    def close(self) -> None:
        """End the runs, then record the points."""
        for run in self._runs.values():
            run.finish()
        if self._runs:
            self._open = []
            self._save(json.dumps(self._values))
