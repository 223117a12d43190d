"""Partitions by domain: each client has images of one domain only."""

from collections.abc import Callable

import numpy as np

from furlkit.data.partitions.sizes import even_sizes
from furlkit.errors import UsageError


def by_domain(
    domains: np.ndarray,
    clients: int,
    inside: Callable[[np.ndarray, int], list[np.ndarray]],
    rng: np.random.Generator,
    *,
    replace: bool = False,
) -> list[np.ndarray]:
    """Sample each domain to the mean domain size and divide it among its clients.

    The clients of the first domain come first. `inside(chosen, k)` divides the chosen
    examples into k arrays of positions in `chosen`. A domain smaller than the mean
    contributes all its examples; with `replace`, they are repeated up to the mean.
    """
    counts = np.bincount(domains)
    present = np.flatnonzero(counts)
    if clients % len(present):
        raise UsageError(
            f"--clients {clients}: expected a multiple of {len(present)}, the number "
            "of domains, so that each has the same number of clients"
        )
    mean = len(domains) // len(present)
    parts = []
    for domain in present:
        members = np.flatnonzero(domains == domain)
        size = mean if replace else min(mean, len(members))
        chosen = sample_to(members, size, rng)
        for part in inside(chosen, clients // len(present)):
            parts.append(np.sort(chosen[part]).astype(np.int64))
    return parts


def sample_to(members: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """`size` random members; if there are too few, all are repeated equally often."""
    times = even_sizes(size, len(members))
    return np.repeat(rng.permutation(members), times)
