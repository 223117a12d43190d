"""Numbers in metrics files: of one model, and of several seeds and methods."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from furlkit import console
from furlkit.errors import InputError, UsageError
from furlkit.files.container.header import canonical, with_article
from furlkit.files.metrics import read_metrics
from furlkit.reports.summary import Results, paired
from furlkit.reports.text import lookup, word

MOST_ROUNDS = 10**9  # A larger round was not written by a training.


class Score(NamedTuple):
    """One number of one metrics file."""

    path: Path
    protocol: str
    role: str
    round: int
    value: float


def read_score(path: Path, metrics: dict[str, Any], name: str) -> Score:
    """The number `name` of a metrics file, and which model it belongs to."""
    protocol, role = word(metrics.get("protocol")), word(facts_of(metrics).get("role"))
    round_ = round_of(path, metrics)
    return Score(path, protocol, role, round_, number(path, metrics, name))


def scored(metrics: dict[str, Any]) -> dict[str, Any]:
    """The description of the checkpoint that was scored, empty if there is none."""
    checkpoint = metrics.get("checkpoint")
    return checkpoint if isinstance(checkpoint, dict) else {}


def facts_of(metrics: dict[str, Any]) -> dict[str, Any]:
    """The facts of the checkpoint that was scored, empty if there are none."""
    facts = lookup(metrics, "checkpoint.facts")
    return facts if isinstance(facts, dict) else {}


def round_of(path: Path, metrics: dict[str, Any]) -> int:
    """The round of the model that was scored."""
    round_ = facts_of(metrics).get("round")
    if type(round_) is not int or not 0 <= round_ <= MOST_ROUNDS:
        raise InputError(
            f"{path}: does not name the round of the model it scored; re-create it with "
            "furlkit evaluate"
        )
    return round_


def number(path: Path, metrics: dict[str, Any], name: str) -> float:
    """The number of this name; dots lead into nested values, like `drift.rank`."""
    value = lookup(metrics, name)
    if is_number(value):
        return float(value)
    there = [key for key, value in sorted(metrics.items()) if is_number(value)]
    raise InputError(
        f"{path}: has no number {name!r}; it has {', '.join(there) or 'none'}"
    )


def is_number(value: Any, most: float = sys.float_info.max) -> TypeGuard[float]:
    """Whether a value of a JSON document is a finite number, and how large at most."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    # An integer may be too large for a float; NaN compares false.
    return abs(value) <= most


def is_share(name: str) -> bool:
    """Whether a value is shown in percent: accuracies are."""
    return name.endswith("accuracy")


def show(value: float, percent: bool) -> str:
    """A number for people, with its unit."""
    return f"{100 * value:.2f} %" if percent else f"{value:.4g}"


def read_all(
    results: Sequence[Results],
    value: str,
    reference: str | None,
    lowest: Sequence[str] = (),
) -> list[Results]:
    """Read the files of each method and compare it with the reference of its group.

    Methods whose label is in `lowest` have several files per seed, such as clients, of
    which the lowest value counts.
    """
    if not results:
        raise UsageError("give --series LABEL=FILE,... of files that evaluate writes")
    names = [each.name for each in results]
    for each in results:
        if names.count(each.name) > 1:
            raise UsageError(
                f"--series {each.name}: given twice; give all its files to one"
            )
        labels = [other.label for other in results if other.group == each.group]
        if reference is not None and reference not in labels:
            where = f" in the group {each.group}" if each.group else ""
            raise UsageError(
                f"--reference {reference}: there is no such label{where}, only "
                f"{', '.join(labels)}"
            )
    read = [_read_results(each, value) for each in results]
    found = [_lowest(each) if each.label in lowest else each for each in read]
    others = {each.group: each for each in found if each.label == reference}
    return [
        each
        if reference in (None, each.label)
        else each._replace(difference=_difference(each, others[each.group]))
        for each in found
    ]


def _read_results(given: Results, value: str) -> Results:
    """Read the files of one method; they must be of one protocol, role and round."""
    values, seeds = [], []
    kinds: dict[str, Path] = {}
    same: dict[str, Path] = {}
    for path in given.paths:
        metrics = read_metrics(path)
        first = same.setdefault(canonical(metrics), path)
        if first is not path:
            raise UsageError(
                f"--series {given.name}: {path} has the same result as {first}; a "
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
            f"--series {given.name}: {first} is {one} and {second} is {other}; make "
            "two --series of them"
        )
    return given._replace(values=tuple(values), seeds=tuple(seeds))


def _kind(metrics: dict[str, Any]) -> str:
    facts = facts_of(metrics)
    protocol, role = word(metrics.get("protocol")), word(facts.get("role"))
    return (
        f"{protocol} of {with_article(role)} model of round {word(facts.get('round'))}"
    )


def _lowest(results: Results) -> Results:
    """The lowest value of each seed, FLESD's Min-Local."""
    by_seed: dict[int, list[float]] = {}
    for path, seed, value in zip(
        results.paths, results.seeds, results.values, strict=True
    ):
        if type(seed) is not int:
            raise UsageError(
                f"--lowest {results.name}: {path} does not name its seed, so it is "
                "unknown which files belong together"
            )
        by_seed.setdefault(seed, []).append(value)
    counts = [len(values) for values in by_seed.values()]
    if len(set(counts)) > 1:
        console.warn(
            f"--lowest {results.name}: its seeds have {', '.join(map(str, counts))} "
            "files; the lowest of fewer is higher"
        )
    seeds = tuple(sorted(by_seed))
    return results._replace(values=tuple(min(by_seed[s]) for s in seeds), seeds=seeds)


def _difference(mine: Results, other: Results) -> dict[str, Any]:
    """Pairs are made by seed if all seeds are known, else by position."""
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
            return {**asdict(paired(*pairs)), "paired_by": "seed"}
        ours, theirs = (", ".join(map(str, sorted(each))) for each in (a, b))
        raise UsageError(
            f"--series {mine.name}: has the seeds {ours} and the reference "
            f"{other.name} has {theirs}; give both the same seeds"
        )
    if counts[0] != counts[1]:
        raise UsageError(
            f"--series {mine.name}: has {counts[0]} files and the reference "
            f"{other.name} has {counts[1]}; give both one file per seed, in the "
            "same order"
        )
    return {**asdict(paired(mine.values, other.values)), "paired_by": "position"}
