"""Points of a run: losses, speed and other numbers of epochs, and scores of rounds."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.errors import InputError
from furlkit.files.clients import ClientId, is_client
from furlkit.files.journal import Journal
from furlkit.files.metrics import as_metrics, read_json
from furlkit.reports.metrics import facts_of, is_number
from furlkit.reports.runs import File, read_files
from furlkit.reports.text import lookup, plain

# Numbers in a line of a journal that are no measures of an epoch.
PLACES = ("epoch", "step", "own")
# Entries of a metrics file that are no scores.
ORIGIN = (
    *("checkpoint", "data", "inputs", "options", "round", "seed", "version"),
    *("test_examples", "train_examples"),
)
# Measures of the machine, which differ if a training is repeated.
CLOCK = (
    "cpu_seconds",
    "samples_per_second",
    "step_seconds",
    "input_share",
    "peak_memory",
)
_ROUND = re.compile(r"r?\d+")  # Folder of a round.


class Point(NamedTuple):
    """A number of an epoch or, without an epoch, of a round.

    `step` counts the epochs of a client over all rounds, or is the round. `time` is in
    the format of ISO 8601.
    """

    run: str
    seed: int | None
    round: int | None
    client: ClientId | None
    epoch: int | None
    name: str
    value: float
    time: str
    step: int

    @property
    def tag(self) -> str:
        """Name of the curve in the trackers."""
        return self.name + (f"/client_{self.client}" if self.client is not None else "")

    @property
    def seconds(self) -> float:
        """Time in seconds since 1970; 0 if unknown."""
        try:
            return datetime.fromisoformat(self.time).timestamp()
        except ValueError:
            return 0.0

    @property
    def is_measured(self) -> bool:
        """Return False for measures of the machine."""
        return self.name.rpartition("/")[2] not in CLOCK


def points(folder: Path, run: str) -> Iterator[Point]:
    """Points of a run's folder; `run` is the name of the run in the tracker.

    A training's epochs are read when the training has written its output: the header has
    the round and the client, and the journal is complete.
    """
    files = read_files([folder])
    for file in files:
        yield from _epochs(file, run, _curve(file.path, folder))
    seeds = {file.seed for file in files} - {None}
    seed = seeds.pop() if len(seeds) == 1 else None
    for path, metrics in _metrics_files(folder):
        for point in _scores(path, metrics, run, _curve(path, folder)):
            # The header of an aggregated model has no seed.
            yield point if point.seed is not None else point._replace(seed=seed)


def _metrics_files(folder: Path) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Metrics files below a folder; broken files are left out with a warning."""
    for path in sorted(folder.rglob("*.json")):
        if path.relative_to(folder).parts[0] == "plan":
            continue
        try:
            document = read_json(path)
            if not isinstance(document, dict) or document.get("kind") != "metrics":
                continue
            metrics = as_metrics(path, document)
        except InputError as error:
            console.warn(f"{error}; left out")
        else:
            yield path, metrics


def _curve(path: Path, folder: Path) -> str:
    """Path below the run's folder without the folder of the round and the suffix."""
    parts = path.relative_to(folder).with_suffix("").parts
    return plain("/".join(part for part in parts if not _ROUND.fullmatch(part)))


def _epochs(file: File, run: str, curve: str) -> Iterator[Point]:
    """Points of the epochs in a file's journal."""
    lines = [line for line in Journal(file.path).read() if line.get("event") == "epoch"]
    lines = [line for line in lines if _whole(line.get("epoch")) is not None]
    client, round_ = file.facts.get("client"), _whole(file.facts.get("round"))
    client = client if is_client(client) else None
    # Every round has the same number of epochs, also if --steps decides the number.
    last = max((line["epoch"] for line in lines), default=0)
    before = max((round_ or 1) - 1, 0) * last
    # A client's curve has one name in all rounds: the folder of the phase, if any.
    place = curve if client is None else curve.rpartition("/")[0]
    for line in lines:
        epoch, time = line["epoch"], str(line.get("time"))
        parts = [place] * bool(place) + ["own"] * bool(line.get("own"))
        for name, value in _numbers(line, PLACES):
            name = "/".join([*parts, name.replace("losses.", "loss.")])
            where = (round_, client, epoch, name)
            yield Point(run, file.seed, *where, value, time, before + epoch)


def _scores(
    path: Path, metrics: dict[str, Any], run: str, curve: str
) -> Iterator[Point]:
    """Points of the scores in a metrics file."""
    facts, seed = facts_of(metrics), _whole(lookup(metrics, "checkpoint.seed"))
    round_ = _whole(metrics.get("round", facts.get("round")))
    client = facts.get("client") if is_client(facts.get("client")) else None
    time = str((Journal(path).read() or [{}])[-1].get("time") or _changed(path))
    for name, value in _numbers(metrics, ORIGIN):
        name = f"{curve}/{name}"
        yield Point(run, seed, round_, client, None, name, value, time, round_ or 0)


def _numbers(values: dict[str, Any], without: tuple[str, ...]) -> Iterator[Any]:
    """Names and values of the numbers, with dots for nested tables, in sorted order."""
    for key in sorted(values.keys() - set(without)):
        value, name = values[key], plain(str(key))
        if isinstance(value, dict):
            for below, number in _numbers(value, ()):
                yield f"{name}.{below}", number
        elif is_number(value):
            yield name, float(value)


def _whole(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value < 2**31 else None


def _changed(path: Path) -> str:
    return datetime.fromtimestamp(path.stat().st_mtime, UTC).isoformat()
