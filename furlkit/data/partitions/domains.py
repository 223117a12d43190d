"""Partitions by domain: each group of clients sees images of one style."""

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
    """Sample each domain to the mean size and split it into equal clients.

    The clients of the first domain come first. `inside(chosen, k)` splits the chosen
    examples into k parts of positions. Without replacement, a domain smaller than the
    mean gives all that it has; with it, its examples are repeated up to the mean.
    """
    counts = np.bincount(domains)
    present = np.flatnonzero(counts)
    if clients % len(present):
        raise UsageError(
            f"--clients {clients}: there are {len(present)} domains, and each gets the "
            f"same number of clients; give a multiple of {len(present)}"
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
    """`size` random members; where there are too few, all recur equally often."""
    times = even_sizes(size, len(members))
    return np.repeat(rng.permutation(members), times)
