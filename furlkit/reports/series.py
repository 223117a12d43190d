"""Scores of several seeds, and how far one method is above another."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

from furlkit import console
from furlkit.errors import UsageError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.metrics import read_metrics
from furlkit.reports.metrics import facts_of, number, scored
from furlkit.reports.summary import Difference, Summary, paired, summarise
from furlkit.reports.text import word


class Series(NamedTuple):
    """The metrics files of one method, one per seed; `group` is for bars.

    With `lowest` there are several per seed, such as clients, and the lowest counts.
    """

    group: str
    label: str
    paths: tuple[Path, ...]
    lowest: bool = False

    @property
    def name(self) -> str:
        """The label as it was given to --series."""
        return f"{self.group}:{self.label}" if self.group else self.label


class Results(NamedTuple):
    """The values of a series and their seeds, in the order of the files."""

    series: Series
    values: tuple[float, ...]
    seeds: tuple[Any, ...]

    @property
    def summary(self) -> Summary:
        """Mean, sample standard deviation and count."""
        return summarise(self.values)


class Comparison(NamedTuple):
    """How far a series is above the reference; pairs are made by seed or position."""

    difference: Difference
    by: str

    def to_json(self) -> dict[str, Any]:
        """For programs."""
        return {**asdict(self.difference), "paired_by": self.by}


def check_series(all_series: Sequence[Series], reference: str | None) -> None:
    """Every series has files and its own name; each group has the reference."""
    if not all_series:
        raise UsageError("give --series LABEL=FILE,... of files that evaluate writes")
    names = [series.name for series in all_series]
    for series in all_series:
        if not series.paths:
            raise UsageError(f"--series {series.name}: has no files")
        if names.count(series.name) > 1:
            raise UsageError(
                f"--series {series.name}: given twice; give all its files to one"
            )
        labels = [s.label for s in all_series if s.group == series.group]
        if reference is not None and reference not in labels:
            where = f" in the group {series.group}" if series.group else ""
            raise UsageError(
                f"--reference {reference}: there is no such label{where}, only "
                f"{', '.join(labels)}"
            )


def read_all(
    all_series: Sequence[Series], value: str, reference: str | None
) -> list[tuple[Results, Comparison | None]]:
    """Read every series and compare it with the reference, if there is one."""
    check_series(all_series, reference)
    results = [_read_results(series, value) for series in all_series]
    return [(result, _compare(result, results, reference)) for result in results]


def _read_results(series: Series, value: str) -> Results:
    """Read the files of a series; they must be of one protocol, role and round."""
    values, seeds = [], []
    kinds: dict[str, Path] = {}
    same: dict[str, Path] = {}
    for path in series.paths:
        metrics = read_metrics(path)
        first = same.setdefault(canonical(metrics), path)
        if first is not path:
            raise UsageError(
                f"--series {series.name}: {path} has the same result as {first}; a "
                "result counts once, so leave one out"
            )
        values.append(number(path, metrics, value))
        # Averaged models have no seed; then it is that of the evaluation.
        seed = scored(metrics).get("seed")
        seeds.append(metrics.get("seed") if seed is None else seed)
        kinds.setdefault(_kind(metrics), path)
    if len(kinds) > 1:
        (one, first), (other, second) = list(kinds.items())[:2]
        raise UsageError(
            f"--series {series.name}: {first} is {one} and {second} is {other}; make "
            "two --series of them"
        )
    results = Results(series, tuple(values), tuple(seeds))
    return _lowest(results) if series.lowest else results


def _kind(metrics: dict[str, Any]) -> str:
    facts = facts_of(metrics)
    protocol, role = word(metrics.get("protocol")), word(facts.get("role"))
    return (
        f"{protocol} of {with_article(role)} model of round {word(facts.get('round'))}"
    )


def _lowest(results: Results) -> Results:
    """The lowest value of each seed, FLESD's Min-Local."""
    series = results.series
    by_seed: dict[int, list[float]] = {}
    for path, seed, value in zip(
        series.paths, results.seeds, results.values, strict=True
    ):
        if type(seed) is not int:
            raise UsageError(
                f"--lowest {series.name}: {path} does not name its seed, so it is "
                "unknown which files belong together"
            )
        by_seed.setdefault(seed, []).append(value)
    counts = [len(values) for values in by_seed.values()]
    if len(set(counts)) > 1:
        console.warn(
            f"--lowest {series.name}: its seeds have {', '.join(map(str, counts))} "
            "files; the lowest of fewer is higher"
        )
    seeds = sorted(by_seed)
    return Results(series, tuple(min(by_seed[s]) for s in seeds), tuple(seeds))


def _compare(
    mine: Results, results: Sequence[Results], reference: str | None
) -> Comparison | None:
    """Compare with the reference of the same group, by seed if all seeds are known."""
    if reference is None or mine.series.label == reference:
        return None
    wanted = mine.series.group, reference
    (other,) = (r for r in results if (r.series.group, r.series.label) == wanted)
    a, b = (
        dict(zip(each.seeds, each.values, strict=True))
        if all(type(seed) is int for seed in each.seeds)
        else {}
        for each in (mine, other)
    )
    counts = len(mine.values), len(other.values)
    if (len(a), len(b)) == counts:
        # A run that is still missing has no partner.
        seeds = sorted(a.keys() & b.keys())
        if seeds:
            pairs = [a[seed] for seed in seeds], [b[seed] for seed in seeds]
            return Comparison(paired(*pairs), "seed")
        ours, theirs = (", ".join(map(str, sorted(each))) for each in (a, b))
        raise UsageError(
            f"--series {mine.series.name}: has the seeds {ours} and the reference "
            f"{other.series.name} has {theirs}; give both the same seeds"
        )
    if counts[0] != counts[1]:
        raise UsageError(
            f"--series {mine.series.name}: has {counts[0]} files and the reference "
            f"{other.series.name} has {counts[1]}; give both one file per seed, in the "
            "same order"
        )
    return Comparison(paired(mine.values, other.values), "position")
