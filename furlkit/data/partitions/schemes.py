"""Who holds which examples: the door to all partition schemes.

Every scheme is a function from labels (or a number of examples) and a generator to one
sorted array of indices a client. Clients share no example unless drawn with
replacement, and the public part, drawn first, is nobody's.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from furlkit.data.partitions.classes import classes, iid, shards
from furlkit.data.partitions.dirichlet import dirichlet, dirichlet_client
from furlkit.data.partitions.domains import by_domain
from furlkit.data.partitions.from_file import check_split, read_split
from furlkit.data.partitions.options import SchemeOptions, check_options, flag
from furlkit.data.partitions.volume import volume, volume_classes, volume_shares
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError

Rng = np.random.Generator
Parts = list[np.ndarray]


@dataclass(frozen=True)
class Split:
    """Sorted indices of every client, and of the public part."""

    indices: Parts
    public: np.ndarray


def _labels(data: LabelSet, options: SchemeOptions) -> np.ndarray:
    if data.labels is None:
        raise UsageError(
            f"--scheme {options.scheme} needs labels, {data.name} has none; "
            "use iid, volume or file"
        )
    return data.labels


def _required(options: SchemeOptions, field: str) -> Any:
    value = getattr(options, field)
    if value is None:
        raise UsageError(f"--scheme {options.scheme} needs {flag(field)}")
    return value


def _iid(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    return iid(data.examples, o.clients, rng, replace=o.with_replacement)


def _classes(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    m = _required(o, "classes_per_client")
    copies, ordered = o.class_copies, o.ordered_classes
    return classes(_labels(data, o), o.clients, m, rng, copies=copies, ordered=ordered)


def _dirichlet(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    alpha = _required(o, "concentration")
    return dirichlet(_labels(data, o), o.clients, alpha, rng, cap=o.cap_at_mean)


def _dirichlet_client(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    beta, repeats = _required(o, "concentration"), o.with_replacement
    return dirichlet_client(_labels(data, o), o.clients, beta, rng, replace=repeats)


def _volume(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    if o.classes_per_client is None:
        return volume(data.examples, o.clients, o.even_share, o.decay, rng)
    shares = volume_shares(o.clients, o.even_share, o.decay)
    return volume_classes(_labels(data, o), shares, o.classes_per_client, rng)


def _shards(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    return shards(_labels(data, o), o.clients, o.shards_per_client, rng)


def _domains(data: LabelSet, o: SchemeOptions, rng: Rng) -> Parts:
    if data.domains is None:
        raise UsageError(f"--scheme domains needs domains, {data.name} has none")

    def inside(chosen: np.ndarray, clients: int) -> Parts:
        if o.concentration is None:
            return iid(len(chosen), clients, rng)
        return dirichlet_client(_labels(data, o)[chosen], clients, o.concentration, rng)

    return by_domain(data.domains, o.clients, inside, rng, replace=o.with_replacement)


@dataclass(frozen=True)
class Scheme:
    """A scheme, the options it reads, and whether another draw changes its sizes."""

    draw: Callable[[LabelSet, SchemeOptions, Rng], Parts]
    reads: tuple[str, ...]
    sizes_vary: bool = False


SCHEMES = {
    "iid": Scheme(_iid, ("with_replacement",)),
    "classes": Scheme(
        _classes, ("classes_per_client", "class_copies", "ordered_classes"), True
    ),
    "dirichlet": Scheme(_dirichlet, ("concentration", "cap_at_mean"), True),
    "dirichlet-client": Scheme(
        _dirichlet_client, ("concentration", "with_replacement")
    ),
    "volume": Scheme(_volume, ("even_share", "decay", "classes_per_client")),
    "shards": Scheme(_shards, ("shards_per_client",)),
    "domains": Scheme(_domains, ("concentration", "with_replacement")),
}
NAMES = (*SCHEMES, "file")
ALWAYS = ("scheme", "clients", "min_size", "redraws", "public_client")
DRAWN_FIRST = ("public_fraction", "public_count")


def split(data: LabelSet, options: SchemeOptions, rng: Rng) -> Split:
    """Deal the examples of a dataset to clients, and some to the public."""
    check_options(options, options_read(options.scheme))
    if options.scheme == "file":
        return _give_away_client(_from_file(data, options), options)
    public = draw_public(
        data.examples, options.public_fraction, options.public_count, rng
    )
    pool = np.setdiff1d(np.arange(data.examples), public, assume_unique=True)
    parts = _draw(_subset(data, pool) if len(public) else data, options, rng)
    return _give_away_client(Split([pool[part] for part in parts], public), options)


def draw_public(
    examples: int,
    fraction: float | None,
    count: int | None,
    rng: Rng,
) -> np.ndarray:
    """Sorted indices of a random public part, given as a fraction or as a number."""
    if fraction is not None and count is not None:
        raise UsageError("give --public-fraction or --public-count, not both")
    if fraction is not None and not 0 <= fraction < 1:
        raise UsageError(f"--public-fraction {fraction} is not in [0, 1)")
    size = count if count is not None else round((fraction or 0) * examples)
    if not 0 <= size < max(examples, 1):
        raise UsageError(
            f"--public-count {size}: the dataset has {examples:,} examples, "
            "and some must be left for the clients"
        )
    return np.sort(rng.choice(examples, size, replace=False)).astype(np.int64)


def label_histogram(
    parts: Parts, labels: np.ndarray | None, classes: int
) -> np.ndarray:
    """Examples of each class by client: (clients, classes), or no columns."""
    if labels is None:
        return np.zeros((len(parts), 0), np.int64)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    cells = owners * classes + labels[np.concatenate(parts)]
    return np.bincount(cells, minlength=len(parts) * classes).reshape(-1, classes)


def _draw(data: LabelSet, options: SchemeOptions, rng: Rng) -> Parts:
    wanted, clients = options.min_size, options.clients
    if clients * wanted > data.examples and not options.with_replacement:
        raise UsageError(
            f"{clients:,} clients of at least {wanted} examples need "
            f"{clients * wanted:,}, {data.name} has {data.examples:,} for them; "
            "lower --clients or --min-size"
        )
    scheme, smallest = SCHEMES[options.scheme], 0
    draws = options.redraws + 1 if scheme.sizes_vary else 1
    for _ in range(draws):
        parts = scheme.draw(data, options, rng)
        smallest = max(smallest, min(map(len, parts)))
        if smallest >= wanted:
            return parts
    raise UsageError(
        f"--min-size {wanted}: the smallest of {clients:,} clients had {smallest} "
        f"examples at best in {draws} {'draws' if draws > 1 else 'draw'}; "
        f"lower --min-size or --clients{_other_cure(options)}"
    )


def _other_cure(options: SchemeOptions) -> str:
    if options.scheme == "dirichlet":
        return f", or raise --concentration above {options.concentration:g}"
    if options.scheme == "volume":
        return f", or raise --even-share above {options.even_share:g}"
    return ""


def _from_file(data: LabelSet, options: SchemeOptions) -> Split:
    path = Path(_required(options, "split_file"))
    parts, public = read_split(path)
    check_split(path, parts, public, data.examples, replace=options.with_replacement)
    for client, part in enumerate(parts):
        if len(part) < options.min_size:
            raise UsageError(
                f"{path}: client {client} has {len(part)} examples; lower --min-size "
                f"{options.min_size} if that is meant"
            )
    return Split(parts, public)


def _give_away_client(drawn: Split, options: SchemeOptions) -> Split:
    client = options.public_client
    if client is None:
        return drawn
    if len(drawn.public):
        raise UsageError(f"--public-client {client}: there is a public part already")
    if not 0 <= client < len(drawn.indices):
        raise UsageError(
            f"--public-client {client}: the clients are 0 to {len(drawn.indices) - 1}"
        )
    parts = list(drawn.indices)
    public, parts[client] = parts[client], np.empty(0, np.int64)
    return Split(parts, public)


def _subset(data: LabelSet, pool: np.ndarray) -> LabelSet:
    labels = None if data.labels is None else data.labels[pool]
    domains = None if data.domains is None else data.domains[pool]
    return replace(data, examples=len(pool), labels=labels, domains=domains)


def options_read(scheme: str) -> tuple[str, ...]:
    """The options a scheme reads."""
    if scheme not in NAMES:
        raise UsageError(f"--scheme {scheme}: known are {', '.join(NAMES)}")
    if scheme == "file":
        return (*ALWAYS, "split_file", "with_replacement")
    return (*ALWAYS, *DRAWN_FIRST, *SCHEMES[scheme].reads)
