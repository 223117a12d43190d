"""Partitions by domain: each client has images of one domain only."""

from collections.abc import Callable
from functools import partial

import numpy as np

from furlkit.data.partitions.classes import iid
from furlkit.data.partitions.dirichlet import dirichlet_client
from furlkit.data.partitions.sizes import Parts, Rng, even_sizes
from furlkit.data.sets.labels import LabelSet
from furlkit.errors import UsageError


def domains(
    data: LabelSet,
    clients: int,
    rng: Rng,
    *,
    concentration: float | None = None,
    repeat: bool,
) -> Parts:
    """Sample each domain to the mean domain size and divide it among its clients.

    The clients of the first domain come first. Inside a domain they get equal random
    parts, or with a concentration those of `dirichlet-client`. Examples of a domain
    smaller than the mean are repeated, so that all clients have the same size; without
    `repeat`, it contributes what it has.
    """
    present = present_domains(data)
    if clients % len(present):
        raise UsageError(
            f"--clients {clients}: expected a multiple of {len(present)}, the number "
            "of domains, so that each has the same number of clients; or give "
            "--clients-per-domain"
        )
    mean, count = data.examples // len(present), clients // len(present)
    equal = mean // count * count
    divide: Callable[..., Parts] = iid
    if concentration is not None:
        divide = partial(dirichlet_client, concentration=concentration)
    parts = []
    for domain in present:
        members = np.flatnonzero(data.domains == domain)
        size = equal if repeat else min(mean, len(members))
        chosen = sample_to(members, size, rng)
        divided = divide(data.subset(chosen), count, rng, with_replacement=False)
        parts += [np.sort(chosen[part]).astype(np.int64) for part in divided]
    return parts


def present_domains(data: LabelSet) -> np.ndarray:
    """The numbers of the domains that have examples."""
    if data.domains is None:
        raise UsageError(
            f"--scheme domains needs domains, but {data.name} has none; "
            "pack several sources, or a folder with --domain-folders"
        )
    return np.unique(data.domains)


def domains_of_clients(parts: Parts, data: LabelSet) -> np.ndarray | None:
    """The one domain that each client's examples belong to, -1 for one without any.

    None if the dataset has no domains, or a client examples of several.
    """
    if data.domains is None:
        return None
    held = [np.unique(data.domains[part]) for part in parts]
    if any(len(found) > 1 for found in held):
        return None
    return np.array([found[0] if len(found) else -1 for found in held], np.int64)


def sample_to(members: np.ndarray, size: int, rng: Rng) -> np.ndarray:
    """`size` random members; if there are too few, all are repeated equally often."""
    times = even_sizes(size, len(members))
    return np.repeat(rng.permutation(members), times)
