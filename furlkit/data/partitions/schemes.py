"""All partition schemes by name.

A scheme is a function from labels (or a number of examples) and a generator to one
sorted array of indices per client. Clients share examples only with replacement. The
public part is drawn first and belongs to no client.
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
            f"--scheme {options.scheme} needs labels, but {data.name} has none; "
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
        raise UsageError(
            f"--scheme domains needs domains, but {data.name} has none; "
            "pack several sources, or a folder with --domain-folders"
        )

    def inside(chosen: np.ndarray, clients: int) -> Parts:
        if o.concentration is None:
            return iid(len(chosen), clients, rng)
        return dirichlet_client(_labels(data, o)[chosen], clients, o.concentration, rng)

    return by_domain(data.domains, o.clients, inside, rng, replace=o.with_replacement)


@dataclass(frozen=True)
class Scheme:
    """A scheme, the options it reads, and whether its sizes differ between draws."""

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
READ_BY_ALL = ("scheme", "clients", "min_size", "redraws", "public_client")
PUBLIC_OPTIONS = ("public_fraction", "public_count")


def split(data: LabelSet, options: SchemeOptions, rng: Rng) -> Split:
    """Divide the examples of a dataset into clients and a public part."""
    check_options(options, options_read(options.scheme))
    if options.scheme == "file":
        return _make_client_public(_from_file(data, options), options)
    public = draw_public(
        data.examples, options.public_fraction, options.public_count, rng
    )
    # Schemes number the remaining examples from 0; `pool` maps them back.
    pool = np.setdiff1d(np.arange(data.examples), public, assume_unique=True)
    parts = _draw(_subset(data, pool) if len(public) else data, options, rng)
    return _make_client_public(Split([pool[part] for part in parts], public), options)


def draw_public(
    examples: int, fraction: float | None, count: int | None, rng: Rng
) -> np.ndarray:
    """Sorted indices of a random public part, of a given fraction or count."""
    if fraction is not None and count is not None:
        raise UsageError("give --public-fraction or --public-count, not both")
    if fraction is not None and not 0 <= fraction < 1:
        raise UsageError(
            f"--public-fraction {fraction}: expected at least 0 and below 1"
        )
    size = count if count is not None else round((fraction or 0) * examples)
    if not 0 <= size < max(examples, 1):
        raise UsageError(
            f"--public-count {size}: expected fewer than the {examples:,} examples of "
            "the dataset, so that clients get some"
        )
    return np.sort(rng.choice(examples, size, replace=False)).astype(np.int64)


def label_histogram(
    parts: Parts, labels: np.ndarray | None, classes: int
) -> np.ndarray:
    """Number of examples: (clients, classes), or (clients, 0) without labels."""
    if labels is None:
        return np.zeros((len(parts), 0), np.int64)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    cells = owners * classes + labels[np.concatenate(parts)]
    return np.bincount(cells, minlength=len(parts) * classes).reshape(-1, classes)


def _draw(data: LabelSet, options: SchemeOptions, rng: Rng) -> Parts:
    min_size, clients = options.min_size, options.clients
    if clients * min_size > data.examples and not options.with_replacement:
        raise UsageError(
            f"{clients:,} clients of at least {min_size} examples need "
            f"{clients * min_size:,}, {data.name} has {data.examples:,} for them; "
            "lower --clients or --min-size"
        )
    scheme, smallest = SCHEMES[options.scheme], 0
    draws = options.redraws + 1 if scheme.sizes_vary else 1
    for _ in range(draws):
        parts = scheme.draw(data, options, rng)
        smallest = max(smallest, min(map(len, parts)))
        if smallest >= min_size:
            return parts
    raise UsageError(
        f"--min-size {min_size}: the smallest client had at most {smallest} examples "
        f"in {draws} {'draws' if draws > 1 else 'draw'}; "
        f"lower --min-size or --clients{_more_advice(options)}"
    )


def _more_advice(options: SchemeOptions) -> str:
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
                f"{path}: client {client} has {len(part)} examples, expected at least "
                f"{options.min_size}; lower --min-size if this is intended"
            )
    return Split(parts, public)


def _make_client_public(drawn: Split, options: SchemeOptions) -> Split:
    client = options.public_client
    if client is None:
        return drawn
    if len(drawn.public):
        raise UsageError(f"--public-client {client}: there is already a public part")
    if not 0 <= client < len(drawn.indices):
        raise UsageError(
            f"--public-client {client}: expected 0 to {len(drawn.indices) - 1}"
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
        raise UsageError(f"--scheme {scheme}: expected one of {', '.join(NAMES)}")
    if scheme == "file":
        return (*READ_BY_ALL, "split_file", "with_replacement")
    return (*READ_BY_ALL, *PUBLIC_OPTIONS, *SCHEMES[scheme].reads)
