"""Summaries of runs over seeds: mean and deviation, a line of a plot, a box."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from furlkit.files.clients import ClientId

T = TypeVar("T")


class Summary(NamedTuple):
    """Mean, sample standard deviation (None for a single value) and count."""

    mean: float
    std: float | None
    n: int


def summarise(values: Iterable[float]) -> Summary:
    """Return mean and deviation of several runs; the only place that computes them."""
    # Sorting makes the mean independent of the order of the runs, to the last bit.
    ordered = np.sort(np.fromiter(values, np.float64))
    std = float(ordered.std(ddof=1)) if len(ordered) > 1 else None
    return Summary(float(ordered.mean()), std, len(ordered))


class Measure(NamedTuple):
    """A point of a plot with two measured coordinates."""

    label: str
    x: Summary
    y: Summary

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {"label": self.label, "x": self.x._asdict(), "y": self.y._asdict()}


def grouped(items: Iterable[T], key: Callable[[T], Any]) -> dict[Any, list[T]]:
    """Group items by key, in their order."""
    groups: dict[Any, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


@dataclass(frozen=True)
class Line:
    """A line in a plot: at each x, the mean of `runs` runs and the deviation.

    `rounds` are the rounds of the points; `std` is 0 for a single value.
    """

    label: str
    x: np.ndarray
    rounds: np.ndarray
    mean: np.ndarray
    std: np.ndarray
    runs: np.ndarray

    @classmethod
    def of(
        cls, label: str, x: Sequence, rounds: Sequence[int], values: Sequence[Summary]
    ) -> "Line":
        """Line from one summary for each x."""
        rows = ((s.mean, s.std or 0.0, s.n) for s in values)
        return cls(label, *map(np.array, (x, rounds, *zip(*rows, strict=True))))

    @property
    def round_ends(self) -> np.ndarray:
        """Last point of each round except the last round; aggregation follows."""
        return np.flatnonzero(np.diff(self.rounds))

    @property
    def jumps(self) -> np.ndarray:
        """Change of the mean by each aggregation."""
        return np.diff(self.mean)[self.round_ends]

    def to_json(self, **columns: Any) -> dict[str, Any]:
        """Line for programs; `columns` are further lists, with an entry per point."""
        numbers = {"mean": self.mean, "std": self.std, "runs": self.runs, **columns}
        lists = {name: np.asarray(each).tolist() for name, each in numbers.items()}
        return {"label": self.label, "rounds": self.rounds.tolist(), **lists}


class Choices(NamedTuple):
    """Decisions of a client by round: share of its last model, and distance or None."""

    client: int | str
    rounds: tuple[int, ...]
    own: tuple[float, ...]
    distances: tuple[float | None, ...]

    @classmethod
    def of(cls, client: int | str, rows: Sequence[tuple]) -> "Choices":
        """From rows of round, share and distance."""
        rounds, own, distances = zip(*rows, strict=True)
        return cls(client, rounds, own, distances)

    @property
    def words(self) -> list[str]:
        """Decision in each round: "took", "mixed" or "kept"."""
        return [{0.0: "took", 1.0: "kept"}.get(share, "mixed") for share in self.own]

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**self._asdict(), "decisions": self.words}


class Upload(NamedTuple):
    """Numbers of a report about a client's upload; None for unknown numbers."""

    client: ClientId
    round: int
    norm: float
    angle: float | None
    moved: float | None
    stands_out: bool


class Cloud(NamedTuple):
    """Points of a panel, (n, 2) after the layout, and their classes."""

    label: str
    points: np.ndarray
    labels: np.ndarray


class ImageRow(NamedTuple):
    """Images (k, H, W, channels) of a cluster; `wrong` marks other classes."""

    cluster: int
    name: str
    note: str
    images: np.ndarray
    wrong: Sequence[bool]


class Curve(NamedTuple):
    """Points [FPR, TPR] (n, 2) of an attack, and the area below."""

    label: str
    points: np.ndarray
    auc: float


class Box(NamedTuple):
    """Five numbers of a distribution of angles in degrees, and the round."""

    round: int
    low: float
    q1: float
    median: float
    q3: float
    high: float
