"""Scores of one method, with both kinds of noise and a difference."""

from pathlib import Path
from typing import Any, NamedTuple

from furlkit.reports.conditions import Measured
from furlkit.reports.differences import Difference, probe_error, probe_std
from furlkit.reports.summary import Summary, summarise


class Results(NamedTuple):
    """Values of one method, one per seed, with seeds and files in equal order.

    `difference`: distance above the values of a reference, if there is one. `probes`:
    scores of the single probes behind each value; empty if the file has no probes.
    `measured`: conditions of each file. `stale`: files with scores of a replaced model.
    """

    group: str
    label: str
    values: tuple[float, ...]
    seeds: tuple[Any, ...] = ()
    paths: tuple[Path, ...] = ()
    difference: Difference | None = None
    protocol: str = ""
    probes: tuple[tuple[float, ...], ...] = ()
    measured: tuple[Measured, ...] = ()
    stale: tuple[Path, ...] = ()

    @property
    def name(self) -> str:
        """Label in the form of --series."""
        return f"{self.group}:{self.label}" if self.group else self.label

    @property
    def by_seed(self) -> dict[int, int]:
        """Position of each seed's value; empty if a seed is unknown or repeated."""
        seeds = enumerate(self.seeds)
        found = {seed: place for place, seed in seeds if type(seed) is int}
        return found if len(found) == len(self.values) else {}

    @property
    def summary(self) -> Summary:
        """Mean, sample standard deviation and count."""
        return summarise(self.values)

    @property
    def extent(self) -> tuple[float, float]:
        """Lowest and highest point drawn: values and ends of the error bar."""
        mean, std = self.summary.mean, self.summary.std or 0
        points = (*self.values, mean - std, mean + std)
        return min(points), max(points)

    def chosen(self, places: list[int]) -> "Results":
        """Results with only the values at these positions."""
        values = tuple(self.values[place] for place in places)
        probes = tuple(self.probes[place] for place in places) if self.probes else ()
        return self._replace(values=values, probes=probes)

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        row = {"group": self.group, "label": self.label, **self.summary._asdict()}
        row |= {"values": list(self.values), "files": list(map(str, self.paths))}
        row["probe_std"] = probe_std(self.probes)
        row["probe_se"] = probe_error(self.probes)
        if self.stale:
            row["stale"] = list(map(str, self.stale))
        if self.difference:
            row["difference"] = self.difference.to_json()
        return row
