"""Partitions by domain: a client has images of a single domain."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from furlkit.data.partitions.classes import iid
from furlkit.data.partitions.dirichlet import dirichlet_client
from furlkit.data.partitions.sizes import (
    Parts,
    Rng,
    even_sizes,
    group_by_class,
    split_by_owner,
)
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


def domains(
    data: LabelSet,
    clients: int,
    rng: Rng,
    *,
    concentration: float | None = None,
    repeat: bool,
    balance: str = "none",
) -> Parts:
    """Sample each domain to the mean domain size and divide the sample among clients.

    The clients of the first domain come first. Clients of a domain get equal random
    parts; with `balance`, equal parts of every class; with a concentration, parts by
    `dirichlet-client`. Examples of a domain below the mean are repeated, to give all
    clients equal sizes; without `repeat`, the domain stays smaller. The balance
    "classes" treats each class of a domain in the same way.
    """
    present = present_domains(data)
    if clients % len(present):
        raise UsageError(
            f"--clients {clients}: expected a multiple of {len(present)}, the number "
            "of domains, for an equal number of clients per domain; or give "
            "--clients-per-domain"
        )
    mean, count = data.examples // len(present), clients // len(present)
    equal = mean // count * count
    balance = "none" if concentration is not None else balance
    divide = _division(data, concentration, balance)
    parts = []
    for domain in present:
        members = np.flatnonzero(data.domains == domain)
        if balance == "classes":
            chosen = _sample_classes(data, members, mean // count, count, repeat, rng)
        else:
            size = equal if repeat else min(mean, len(members))
            chosen = sample_to(members, size, rng)
        divided = divide(data.subset(chosen), count, rng)
        parts += [np.sort(chosen[part]).astype(np.int64) for part in divided]
    return parts


def _division(
    data: LabelSet, concentration: float | None, balance: str
) -> Callable[[LabelSet, int, Rng], Parts]:
    """Function that divides the examples of a domain among its clients."""
    once: dict[str, Any] = {"with_replacement": False}
    if concentration is not None:
        return partial(dirichlet_client, concentration=concentration, **once)
    if balance == "none":
        return partial(iid, **once)
    if data.labels is None:
        raise UsageError(f"--balance {balance} needs labels, but {data.name} has none")
    return deal_classes


def deal_classes(data: LabelSet, clients: int, rng: Rng) -> Parts:
    """Deal the examples out, class by class, to the clients in turn.

    Clients differ by at most one example, in total and in each class.
    """
    order, _ = group_by_class(data, rng)
    return split_by_owner(order, np.arange(len(order)) % clients, clients)


def _sample_classes(
    data: LabelSet, members: np.ndarray, size: int, clients: int, repeat: bool, rng: Rng
) -> np.ndarray:
    """Members of a domain, with equal class counts for clients of this size."""
    labels = np.asarray(data.labels)[members]
    found, sizes = np.unique(labels, return_counts=True)
    each = size // len(found)
    if not repeat:
        each = min(each, sizes.min() // clients)
    if not each:
        raise UsageError(
            f"--balance classes: a client of {size:,} examples has none of some of the "
            f"{len(found)} classes; lower --clients-per-domain, or give --balance clients"
        )
    drawn = [sample_to(members[labels == c], each * clients, rng) for c in found]
    return np.concatenate(drawn)


def present_domains(data: LabelSet) -> np.ndarray:
    """Numbers of the domains with examples."""
    if data.domains is None:
        raise UsageError(
            f"--scheme domains needs domains, but {data.name} has none; "
            "pack several sources, or a folder with --domain-folders"
        )
    return np.unique(data.domains)


def domains_of_clients(parts: Parts, data: LabelSet) -> np.ndarray | None:
    """Domain of each client, -1 for a client without examples.

    None if the dataset has no domains, or a client has examples of several domains.
    """
    if data.domains is None:
        return None
    held = [np.unique(data.domains[part]) for part in parts]
    if any(len(found) > 1 for found in held):
        return None
    return np.array([found[0] if len(found) else -1 for found in held], np.int64)


def sample_to(members: np.ndarray, size: int, rng: Rng) -> np.ndarray:
    """`size` random members; too few members are repeated equally often."""
    times = even_sizes(size, len(members))
    return np.repeat(rng.permutation(members), times)
