"""Scores of several seeds, and how far one method is above another."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from furlkit import console
from furlkit.errors import UsageError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.metrics import read_metrics
from furlkit.reports.metrics import facts_of, number, scored
from furlkit.reports.paired import Difference, paired
from furlkit.reports.text import word


class Series(NamedTuple):
    """The files of one bar, one a seed; bars of one group stand together.

    With `lowest` they are several a seed, as clients are, of which the worst counts.
    """

    group: str
    label: str
    paths: tuple[Path, ...]
    lowest: bool = False

    @property
    def name(self) -> str:
        """As the flag has it."""
        return f"{self.group}:{self.label}" if self.group else self.label


class Results(NamedTuple):
    """What the files of one bar say, in the order they were given."""

    series: Series
    values: tuple[float, ...]
    seeds: tuple[Any, ...]

    @property
    def mean(self) -> float:
        """Of sorted values, which is one to the last bit, whatever their order."""
        return float(np.sort(self.values).mean())

    @property
    def std(self) -> float | None:
        """That of a sample; a single value has none."""
        return float(np.sort(self.values).std(ddof=1)) if len(self.values) > 1 else None


class Comparison(NamedTuple):
    """How far a bar is above the reference, and what made the pairs."""

    difference: Difference
    by: str


def check_series(all_series: Sequence[Series], reference: str | None) -> None:
    """Every series has files and a name of its own; each group has the reference."""
    if not all_series:
        raise UsageError(
            "give it --series LABEL=FILE,... of files that evaluate writes"
        )
    seen = set()
    for series in all_series:
        if not series.paths:
            raise UsageError(f"--series {series.name}: has no files")
        if series.name in seen:
            raise UsageError(
                f"--series {series.name}: is there twice; give all its files to one"
            )
        seen.add(series.name)
        mates = [s.label for s in all_series if s.group == series.group]
        if reference is not None and reference not in mates:
            where = f" of the group {series.group}" if series.group else ""
            raise UsageError(
                f"--reference {reference}: is no label{where}; there are "
                f"{', '.join(mates)}"
            )


def read_results(series: Series, value: str) -> Results:
    """Read a bar's files; they must be one kind of score of one kind of model."""
    values, seeds, kinds = [], [], {}
    same: dict[str, Path] = {}
    for path in series.paths:
        metrics = read_metrics(path)
        content = canonical(metrics)
        if content in same:
            raise UsageError(
                f"--series {series.name}: {path} has the same result as "
                f"{same[content]}; a result counts once, so leave one out"
            )
        same[content] = path
        values.append(number(path, metrics, value))
        seeds.append(_seed(metrics))
        kinds[_kind(metrics)] = path
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise UsageError(
            f"--series {series.name}: {first} is {one} and {second} is {other}; "
            "a bar is of one kind, so make two --series of them"
        )
    results = Results(series, tuple(values), tuple(seeds))
    return _lowest(results) if series.lowest else results


def _lowest(results: Results) -> Results:
    """The lowest value of each seed, by which FLESD's Min-Local is defined."""
    counts = {seed: results.seeds.count(seed) for seed in results.seeds}
    if len(set(counts.values())) > 1:
        console.warn(
            f"--lowest {results.series.name}: its seeds have "
            f"{', '.join(map(str, counts.values()))} files; the lowest of fewer is higher"
        )
    worst: dict[int, float] = {}
    for path, seed, value in zip(
        results.series.paths, results.seeds, results.values, strict=True
    ):
        if type(seed) is not int:
            raise UsageError(
                f"--lowest {results.series.name}: {path} does not say its seed, so it is "
                "not known which files belong together"
            )
        worst[seed] = min(worst.get(seed, value), value)
    seeds = sorted(worst)
    return Results(results.series, tuple(map(worst.__getitem__, seeds)), tuple(seeds))


def _seed(metrics: dict[str, Any]) -> Any:
    """The model's seed, or, as averaged models have none, that of the evaluation."""
    seed = scored(metrics).get("seed")
    return metrics.get("seed") if seed is None else seed


def _kind(metrics: dict[str, Any]) -> str:
    facts = facts_of(metrics)
    protocol, role = word(metrics.get("protocol")), word(facts.get("role"))
    return (
        f"{protocol} of {with_article(role)} model of round {word(facts.get('round'))}"
    )


def compared(
    mine: Results, results: Sequence[Results], reference: str | None
) -> Comparison | None:
    """Hold a bar against the reference of its own group, seed by seed."""
    if reference is None or mine.series.label == reference:
        return None
    (other,) = (
        result
        for result in results
        if (result.series.group, result.series.label) == (mine.series.group, reference)
    )
    if _known(mine.seeds) and _known(other.seeds):
        return _by_seed(mine, other)
    if len(mine.values) != len(other.values):
        raise UsageError(
            f"--series {mine.series.name}: has {len(mine.values)} files and the "
            f"reference {other.series.name} has {len(other.values)}; give both one "
            "file a seed, in the same order"
        )
    return Comparison(paired(mine.values, other.values), "position")


def _known(seeds: tuple[Any, ...]) -> bool:
    """Whether seeds name the files; averaged models have no seed of their own."""
    whole = all(type(seed) is int for seed in seeds)
    return whole and len(set(seeds)) == len(seeds)


def _by_seed(mine: Results, other: Results) -> Comparison:
    """The seeds that both have; a run that is still missing has no partner."""
    one = dict(zip(mine.seeds, mine.values, strict=True))
    two = dict(zip(other.seeds, other.values, strict=True))
    seeds = sorted(one.keys() & two.keys())
    if not seeds:
        raise UsageError(
            f"--series {mine.series.name}: has the seeds {_listed(one)} and the "
            f"reference {other.series.name} has {_listed(two)}; give both the same seeds"
        )
    difference = paired([one[seed] for seed in seeds], [two[seed] for seed in seeds])
    return Comparison(difference, "seed")


def _listed(seeds: dict[int, float]) -> str:
    return ", ".join(map(str, sorted(seeds)))
