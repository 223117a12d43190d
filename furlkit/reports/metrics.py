"""Numbers in metrics files, of one model or of several seeds and methods."""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from furlkit import console
from furlkit.catalogue import AUDITS, PROTOCOLS
from furlkit.errors import InputError, UsageError, did_you_mean
from furlkit.files.container.header import canonical, short, with_article
from furlkit.files.metrics import as_metrics, is_sealed, read_json, read_metrics
from furlkit.reports.conditions import check_alike, measured, stale_files
from furlkit.reports.differences import Difference, difference_error, paired
from furlkit.reports.results import Results
from furlkit.reports.summary import grouped
from furlkit.reports.text import counted, lookup, plain, shorten, word

MOST_ROUNDS = 10**9  # No training writes larger rounds.
LABEL_WIDTH = 36
NAMES = {"knn": "k-NN"}  # Protocols with the names of papers.
BY_DOMAIN = " by domain"
# Keys of the single accuracies in a metrics file.
PROBES = ("probes", "repeats")
OWN_HEAD = ("classifier", "cluster")  # Protocols without training, except k-means.


File = tuple[Path, dict[str, Any]]  # A metrics file and its document.


class Value(NamedTuple):
    """Name of a number in metrics files, and the protocols that measured the number.

    Accuracies are shown in percent.
    """

    name: str
    protocols: tuple[str, ...] = ()

    @property
    def scale(self) -> int:
        """Factor between the number in a file and the number shown."""
        return 100 if self.name.endswith("accuracy") else 1

    @property
    def label(self) -> str:
        """Label of an axis: "k-NN accuracy (%)", "linear accuracy on svhn (%)"."""
        first = self.name.partition(".")[0]
        others = (each for each in self.protocols if each != first)
        by = " or ".join(NAMES.get(each, each) for each in others)
        unit = " (%)" if self.scale == 100 else ""
        name = self.name
        if found := re.fullmatch(r"domains\.(.+)\.accuracy", name):
            tested = "on" if BY_DOMAIN in by else "of clients of"
            by, name = by.replace(BY_DOMAIN, ""), f"accuracy {tested} {found[1]}"
        return f"{by} {shorten(name, LABEL_WIDTH)}{unit}".lstrip()

    def show(self, number: float, percent: str = ".2f", unit: str = "") -> str:
        """Number for people; `percent` and `unit` apply to percentages."""
        if self.scale == 100:
            return f"{100 * number:{percent}}{unit}"
        return f"{number:{'+' if percent.startswith('+') else ''}.4g}"


class Score(NamedTuple):
    """One number of one metrics file."""

    path: Path
    protocol: str
    role: str
    round: int
    value: float


def read_score(path: Path, metrics: dict[str, Any], name: str) -> Score:
    """Read the number `name` of a metrics file, and the scored model."""
    protocol, role = protocol_of(metrics), word(facts_of(metrics).get("role"))
    round_ = round_of(path, metrics)
    return Score(path, protocol, role, round_, number(path, metrics, name))


def read_each(paths: Iterable[Path]) -> list[File]:
    """Metrics files with paths; warn about files without a content hash."""
    read = [(path, read_metrics(path)) for path in paths]
    if unsealed := [path for path, metrics in read if not is_sealed(metrics)]:
        others = f" and {len(unsealed) - 1} more" if unsealed[1:] else ""
        console.warn(
            f"{unsealed[0]}{others}: has no content hash, so a changed number would not "
            "be noticed; the file is from an older furlkit, evaluate again to seal it"
        )
    return read


def read_one(path: Path) -> dict[str, Any]:
    """Document of one metrics file."""
    return read_each([path])[0][1]


def read_once(paths: Iterable[Path]) -> Iterable[File]:
    """Metrics files with paths, without repeated results."""
    found: dict[str, File] = {}
    for path, metrics in read_each(paths):
        found.setdefault(canonical(metrics), (path, metrics))
    return found.values()


def files_of(paths: Iterable[Path], protocol: str, last: bool) -> tuple[Path, ...]:
    """Metrics files; for a run's folder, files of global models by one protocol.

    With `last`, only files of the last round of each folder.
    """
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += _below(path, protocol, last)
        else:
            _check_protocol(protocol)
            found.append(path)
    return tuple(found)


def _check_protocol(protocol: str) -> None:
    known = (*PROTOCOLS, *AUDITS)
    if protocol not in known:
        raise UsageError(
            f"--protocol {protocol}: known are {', '.join(known)}"
            f"{did_you_mean(protocol, known)}"
        )


def _below(folder: Path, protocol: str, last: bool) -> list[Path]:
    rounds: dict[Path, int] = {}
    # The angles of a round compare clients' models; audits attack any model.
    role = "client" if protocol == "angles" else "global"
    for path, metrics in metrics_below(folder):
        of_role = protocol in AUDITS or facts_of(metrics).get("role") == role
        if metrics.get("protocol") == protocol and of_role:
            rounds[path] = round_of(path, metrics)
    if not rounds:
        _check_protocol(protocol)
        command = "audit" if protocol in AUDITS else "evaluate"
        of = "" if protocol in AUDITS else f" of a {role} model"
        raise InputError(
            f"{folder}: has no {protocol} metrics{of}; run "
            f"furlkit {command} {protocol}, or choose another --protocol"
        )
    end = max(rounds.values())
    return [path for path, number in rounds.items() if number == end or not last]


def metrics_below(folder: Path) -> Iterator[File]:
    """Metrics files below a folder; skip other JSON, refuse changed files."""
    for path in sorted(folder.rglob("*.json")):
        try:
            document = read_json(path)
        except InputError as error:
            console.warn(f"{error}; left out")
            continue
        if isinstance(document, dict) and document.get("kind") == "metrics":
            yield path, as_metrics(path, document)


def facts_of(metrics: dict[str, Any]) -> dict[str, Any]:
    """Facts of the scored checkpoint, empty if missing."""
    facts = lookup(metrics, "checkpoint.facts")
    return facts if isinstance(facts, dict) else {}


def protocol_of(metrics: dict[str, Any]) -> str:
    """Name of the protocol: "linear", or "linear by domain", a different score.

    `evaluate personal` always sums up clients by domain.
    """
    by_domain = isinstance(metrics.get("domains"), dict)
    if metrics.get("protocol") == "personal":
        by_domain = lookup(metrics, "options.by-domain") is True
    return word(metrics.get("protocol")) + BY_DOMAIN * by_domain


def domains_in(path: Path) -> list[str]:
    """Names of the domains scored in a metrics file, in order."""
    metrics = read_one(path)
    names, domains = metrics.get("domain_names"), metrics.get("domains")
    if not isinstance(domains, dict) or not isinstance(names, list):
        raise InputError(
            f"{path}: has no scores of domains; run furlkit evaluate --by-domain"
        )
    return [str(name) for name in names]


def round_of(path: Path, metrics: dict[str, Any]) -> int:
    """Round of the scored model."""
    round_ = facts_of(metrics).get("round")
    if type(round_) is not int or not 0 <= round_ <= MOST_ROUNDS:
        raise InputError(
            f"{path}: does not name the round of the scored model; run furlkit "
            "evaluate again"
        )
    return round_


def number(path: Path, metrics: dict[str, Any], name: str) -> float:
    """Number with this name; dots lead into nested values, like `drift.rank`."""
    value = lookup(metrics, name)
    if is_number(value):
        return float(value)
    there = [key for key, value in sorted(metrics.items()) if is_number(value)]
    raise InputError(
        f"{path}: has no number {name!r}; it has {', '.join(there) or 'none'}"
        f"{did_you_mean(name, there)}"
    )


def probes_of(path: Path, metrics: dict[str, Any], name: str) -> tuple[float, ...]:
    """Accuracies of single probes or repeats; empty for other numbers and old files.

    `domains.svhn.probes` belongs to `domains.svhn.accuracy`. Scores of a model's
    clusters or classes use no random numbers, so two repeats would agree.
    """
    place, _, last = name.rpartition(".")
    scores = lookup(metrics, place) if place else metrics
    if last != "accuracy" or not isinstance(scores, dict):
        return ()
    found = {key: scores[key] for key in PROBES if scores.get(key) is not None}
    if not found:
        exact = metrics.get("protocol") in OWN_HEAD and metrics.get("seed") is None
        return (number(path, metrics, name),) * 2 if exact else ()
    ((key, values), *_) = found.items()
    if not isinstance(values, list) or not all(is_number(v, 1) for v in values):
        raise InputError(
            f"{path}: {key} are {short(values)}, expected a list of shares; "
            "run furlkit evaluate again"
        )
    return tuple(map(float, values))


def is_number(value: Any, most: float = sys.float_info.max) -> TypeGuard[float]:
    """Return True for a finite number of a JSON document, at most `most`."""
    # An integer may be too large for a float; NaN compares false.
    return type(value) in (int, float) and abs(value) <= most


def spread_of(metrics: dict[str, Any]) -> str:
    """Spread over several trainings: "std 0.31, 5 probes"; empty for one."""
    std = metrics.get("accuracy_std")
    for name in ("probes", "repeats"):
        each = metrics.get(name)
        if isinstance(each, list) and is_number(std, most=1):
            return f"std {100 * std:.2f}, {len(each)} {name}"
    return ""


def domains_text(metrics: dict[str, Any]) -> str:
    """Accuracies by domain: "mean of 2 domains: mnist 98.10, svhn 84.80"; or empty.

    The accuracy of `evaluate personal` is the mean over clients, not over domains.
    """
    domains = metrics.get("domains")
    if not isinstance(domains, dict):
        return ""
    found = {name: lookup(domains[name], "accuracy") for name in sorted(domains)}
    each = [
        f"{shorten(plain(name), 24)} {100 * value:.2f}"
        for name, value in found.items()
        if is_number(value, 1)
    ]
    mean = f"mean of {counted(each, 'domain')}"
    if metrics.get("protocol") == "personal":
        mean = "clients by domain"
    return f"{mean}: {', '.join(each)}" if each else ""


def check_labels(labels: Sequence[str]) -> None:
    """Refuse repeated labels of --series."""
    for label in labels:
        if labels.count(label) > 1:
            raise UsageError(
                f"--series {label}: given twice; choose another label, or give all to "
                "one --series"
            )


def check_lowest(lowest: Iterable[str], labels: Iterable[str]) -> None:
    """Refuse unknown labels of --lowest."""
    for label in sorted(set(lowest) - set(labels)):
        raise UsageError(f"--lowest {label}: is not a label of --series")


def check_same(kinds: Iterable[tuple[str, Path]]) -> None:
    """Refuse a series with files of different kinds."""
    (one, first), *others = dict(kinds).items()
    for other, path in others:
        raise UsageError(f"{first}: is {one}, but {path} is {other}; use two --series")


def read_series(
    series: Iterable[tuple[str, Iterable[Path]]],
    protocol: str,
    value: str,
    reference: str | None,
    lowest: Sequence[str],
    interval: str,
    allow_different: Sequence[str],
) -> list[Results]:
    """Read labelled files, or the last rounds of run folders; see `read_all`."""
    given = [
        Results("", label, (), (), files_of(paths, protocol, last=True))
        for label, paths in series
    ]
    return read_all(given, value, reference, lowest, interval, allow_different)


def read_all(
    results: Sequence[Results],
    value: str,
    reference: str | None,
    lowest: Sequence[str] = (),
    interval: str = "t",
    allow_different: Sequence[str] = (),
) -> list[Results]:
    """Read the files of each method and compare with the reference of the group.

    Methods with a label in `lowest` have several files per seed, such as clients; the
    lowest value is used. `interval` is a name of `differences.INTERVALS`. The files of
    a group must have equal conditions, except `allow_different`.
    """
    check_labels([each.name for each in results])
    for group, methods in grouped(results, lambda each: each.group).items():
        labels = [each.label for each in methods]
        if reference is not None and reference not in labels:
            where = f" in the group {group}" if group else ""
            raise UsageError(
                f"--reference {reference}: there is no such label{where}, only "
                f"{', '.join(labels)}"
            )
    read = [_read_results(each, value) for each in results]
    for methods in grouped(read, lambda each: each.group).values():
        check_alike([m for each in methods for m in each.measured], allow_different)
    _warn_of_stale([path for each in read for path in each.stale])
    if reference is not None:
        _check_probes(read)
    found = [_lowest(each) if each.label in lowest else each for each in read]
    others = {each.group: each for each in found if each.label == reference}
    return [
        each
        if reference in (None, each.label)
        else each._replace(difference=_difference(each, others[each.group], interval))
        for each in found
    ]


def _read_results(given: Results, value: str) -> Results:
    """Read the files of one method, which must have one protocol, role and round."""
    values, probes, seeds, kinds, protocol = [], [], [], [], ""
    same: dict[str, Path] = {}
    files = read_each(given.paths)
    for path, metrics in files:
        first = same.setdefault(canonical(metrics), path)
        if first is not path:
            raise UsageError(
                f"--series {given.name}: {path} repeats the result of {first}; "
                "leave out one file"
            )
        values.append(number(path, metrics, value))
        probes.append(probes_of(path, metrics, value))
        # Averaged models have no seed; use the seed of the evaluation.
        seed = lookup(metrics, "checkpoint.seed")
        seeds.append(metrics.get("seed") if seed is None else seed)
        protocol, facts = protocol_of(metrics), facts_of(metrics)
        role, round_ = with_article(word(facts.get("role"))), word(facts.get("round"))
        kinds.append((f"{protocol} of {role} model of round {round_}", path))
    check_same(kinds)
    found = given._replace(values=tuple(values), seeds=tuple(seeds), protocol=protocol)
    conditions = (measured(given.label, p, protocol_of(m), m) for p, m in files)
    found = found._replace(measured=tuple(conditions), stale=tuple(stale_files(files)))
    return found._replace(probes=tuple(probes))


def _warn_of_stale(paths: Sequence[Path]) -> None:
    if paths:
        others = f" and {len(paths) - 1} more" if paths[1:] else ""
        console.warn(
            f"{paths[0]}{others}: has the score of a model that no longer exists; "
            "the model in the folder has another content, so evaluate again"
        )


def _check_probes(results: Sequence[Results]) -> None:
    """Warn if only some scores are means of several probes."""
    several = {
        len(probes) > 1: path
        for each in results
        for path, probes in zip(each.paths, each.probes, strict=True)
    }
    if len(several) > 1:
        console.warn(
            f"{several[False]}: has the score of one probe, {several[True]} scores "
            "of several; the probe noise is unknown until both are "
            "evaluated with several"
        )


def _lowest(results: Results) -> Results:
    """Lowest value of each seed, FLESD's Min-Local."""
    for path, seed in zip(results.paths, results.seeds, strict=True):
        if type(seed) is not int:
            raise UsageError(
                f"--lowest {results.name}: {path} does not name a seed, so "
                "files cannot be grouped"
            )
    scores = list(zip(results.values, results.probes, strict=True))
    places = sorted(range(len(scores)), key=lambda place: scores[place])
    by_seed = grouped(places, lambda place: results.seeds[place])
    seeds = sorted(by_seed)
    counts = [len(by_seed[seed]) for seed in seeds]
    if len(set(counts)) > 1:
        console.warn(
            f"--lowest {results.name}: seeds have {', '.join(map(str, counts))} "
            "files; the lowest value of fewer files is higher"
        )
    lowest = results.chosen([by_seed[seed][0] for seed in seeds])
    return lowest._replace(seeds=tuple(seeds))


def _difference(mine: Results, other: Results, interval: str) -> Difference:
    """Pair scores by seed if all seeds are known, otherwise by position."""
    a, b = mine.by_seed, other.by_seed
    if a and b:
        # A run that is still missing has no partner.
        seeds = sorted(a.keys() & b.keys())
        if not seeds:
            one, two = (", ".join(map(str, sorted(each))) for each in (a, b))
            raise UsageError(
                f"--series {mine.name}: has the seeds {one} and the reference "
                f"{other.name} has {two}; give both the same seeds"
            )
        mine = mine.chosen([a[seed] for seed in seeds])
        other = other.chosen([b[seed] for seed in seeds])
    elif len(mine.values) != len(other.values):
        raise UsageError(
            f"--series {mine.name}: has {len(mine.values)} files and the reference "
            f"{other.name} has {len(other.values)}; give both one file per seed, in the "
            "same order"
        )
    found = paired(mine.values, other.values, interval)
    error = difference_error(mine.probes, other.probes)
    how = "seed" if a and b else "position"
    return found._replace(paired_by=how, probe_se=error)
