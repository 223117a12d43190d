"""Divide a dataset by any scheme of the catalogue.

A scheme is a function `scheme(data, clients, rng, **options)` that returns one sorted
array of indices per client. Clients share examples only with replacement. The public
part is drawn first and belongs to no client.
"""

import inspect
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from furlkit import catalogue
from furlkit.data.partitions.domains import present_domains
from furlkit.data.partitions.sizes import Parts, Rng
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


@dataclass(frozen=True)
class SchemeOptions:
    """A scheme and the options of all schemes; `own`: options of this scheme.

    min_size            draw again while a client has fewer examples
    public_client       this client's examples become the public part; the client keeps
                        its number and has no examples
    """

    scheme: str
    clients: int
    min_size: int
    redraws: int
    public_client: int | None
    own: dict[str, Any]


@dataclass(frozen=True)
class Split:
    """Sorted indices of every client, and of the public part."""

    indices: Parts
    public: np.ndarray


def split(data: LabelSet, options: SchemeOptions, rng: Rng) -> Split:
    """Divide the examples of a dataset into clients and a public part."""
    own, client = dict(options.own), options.public_client
    if per_domain := own.pop("clients_per_domain", None):
        clients = per_domain * len(present_domains(data))
        options = replace(options, clients=clients)
    if options.scheme == "file":
        draw = _function(options)
        parts, public = draw(data, min_size=options.min_size, **own)
    else:
        fraction = own.pop("public_fraction", None)
        count = own.pop("public_count", None)
        public = draw_public(data.examples, fraction, count, rng)
        # Schemes number the remaining examples from 0; `pool` maps them back.
        pool = np.setdiff1d(np.arange(data.examples), public, assume_unique=True)
        drawn = _draw(data.subset(pool) if len(public) else data, options, own, rng)
        parts = [pool[part] for part in drawn]
    if client is not None:
        _check_public_client(client, len(parts), public)
        public, parts[client] = parts[client], np.empty(0, np.int64)
    return Split(parts, public)


def draw_public(
    examples: int, fraction: float | None, count: int | None, rng: Rng
) -> np.ndarray:
    """Sorted indices of a random public part, of a given fraction or count."""
    size = public_size(examples, fraction, count)
    return np.sort(rng.choice(examples, size, replace=False)).astype(np.int64)


def public_size(examples: int, fraction: float | None, count: int | None) -> int:
    """Number of public examples."""
    if fraction is not None and count is not None:
        raise UsageError("give --public-fraction or --public-count, not both")
    size = count if count is not None else round((fraction or 0) * examples)
    if size >= max(examples, 1):
        raise UsageError(
            f"--public-count {size}: expected fewer than the {examples:,} examples of "
            "the dataset; clients need examples too"
        )
    return size


def label_histogram(
    parts: Parts, labels: np.ndarray | None, classes: int
) -> np.ndarray:
    """Number of examples: (clients, classes), or (clients, 0) without labels."""
    if labels is None:
        return np.zeros((len(parts), 0), np.int64)
    owners = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
    cells = owners * classes + labels[np.concatenate(parts)]
    return np.bincount(cells, minlength=len(parts) * classes).reshape(-1, classes)


def _function(options: SchemeOptions) -> Any:
    """Function of the scheme, after a check for required options."""
    function = catalogue.load(catalogue.SCHEMES[options.scheme].function)
    for name, parameter in inspect.signature(function).parameters.items():
        needed = parameter.default is parameter.empty
        if needed and options.own.get(name, name) is None:
            flag = name.replace("_", "-")
            raise UsageError(f"--scheme {options.scheme} needs --{flag}")
    return function


def _draw(
    data: LabelSet, options: SchemeOptions, own: dict[str, Any], rng: Rng
) -> Parts:
    min_size, clients = options.min_size, options.clients
    if clients * min_size > data.examples and not own.get("with_replacement"):
        raise UsageError(
            f"{clients:,} clients of at least {min_size} examples need "
            f"{clients * min_size:,}, {data.name} has {data.examples:,} for them; "
            "lower --clients or --min-size"
        )
    scheme, draw, smallest = catalogue.SCHEMES[options.scheme], _function(options), 0
    draws = options.redraws + 1 if scheme.sizes_vary else 1
    for _ in range(draws):
        parts = draw(data, clients, rng, **own)
        smallest = max(smallest, min(map(len, parts)))
        if smallest >= min_size:
            return parts
    advice, evened_by = "lower --min-size or --clients", scheme.evened_by
    if evened_by:
        value = own[evened_by.replace("-", "_")]
        advice += f", or raise --{evened_by} above {value:g}"
    raise UsageError(
        f"--min-size {min_size}: the smallest client had at most {smallest} examples "
        f"in {draws} {'draws' if draws > 1 else 'draw'}; {advice}"
    )


def _check_public_client(client: int, clients: int, public: np.ndarray) -> None:
    if len(public):
        raise UsageError(f"--public-client {client}: there is already a public part")
    if client >= clients:
        raise UsageError(f"--public-client {client}: expected 0 to {clients - 1}")
