"""The mean of the updates as a gradient for an optimiser at the server.

Hsu et al., "Measuring the Effects of Non-Identical Data Distribution for Federated Visual
Classification", 2019: FedAvgM. Reddi et al., "Adaptive Federated Optimization", ICLR 2021,
Algorithm 2: FedAdam and FedYogi.

    x        the global model that the clients started from: --parent
    Delta    sum_k p_k w_k - x, the mean of the updates; p_k is the share of client k
    m        momentum of Delta, 0 before round 1
    v        momentum of Delta^2, tau^2 before round 1 (the paper: at least tau^2)
    eta      --lr
    tau      --adaptivity: the smaller, the more a step depends on v

The state has m and v of every trained tensor, in the tensor's type; arithmetic is in
float64. BatchNorm's statistics and integers are no weights: they are averaged.

Memory is a piece of a tensor for each thread; model and state are a pass each.
"""

from collections.abc import Callable, Iterator
from itertools import repeat

import numpy as np

from furlkit.aggregators.mean import mean
from furlkit.aggregators.uploads import Pieces, Uploads
from furlkit.weights import weighted_sum

# Delta and the previous slots of one piece -> the step and the next slots.
Optimiser = Callable[..., tuple[np.ndarray, ...]]
State = Pieces | None


def fedavgm(
    uploads: Uploads, state: State, *, lr: float, momentum: float
) -> tuple[Pieces, Pieces]:
    """FedAvgM: m <- momentum m + Delta, x <- x + eta m."""

    def optimiser(delta: np.ndarray, m: np.ndarray) -> tuple[np.ndarray, ...]:
        m = momentum * m + delta
        return lr * m, m

    return _optimised(uploads, state, {"m": 0.0}, optimiser)


def fedadam(
    uploads: Uploads,
    state: Pieces | None,
    *,
    lr: float,
    beta_1: float,
    beta_2: float,
    adaptivity: float,
) -> tuple[Pieces, Pieces]:
    """Algorithm 2, FedAdam: x <- x + eta m / (sqrt(v) + tau), without bias correction.

    m <- beta_1 m + (1 - beta_1) Delta,    v <- beta_2 v + (1 - beta_2) Delta^2
    """

    def optimiser(delta: np.ndarray, m: np.ndarray, v: np.ndarray):
        m = beta_1 * m + (1 - beta_1) * delta
        v = beta_2 * v + (1 - beta_2) * delta**2
        return lr * m / (np.sqrt(v) + adaptivity), m, v

    return _optimised(uploads, state, {"m": 0.0, "v": adaptivity**2}, optimiser)


def fedyogi(
    uploads: Uploads,
    state: Pieces | None,
    *,
    lr: float,
    beta_1: float,
    beta_2: float,
    adaptivity: float,
) -> tuple[Pieces, Pieces]:
    """Algorithm 2, FedYogi: like FedAdam, but v changes by at most (1 - beta_2) Delta^2.

    v <- v - (1 - beta_2) Delta^2 sign(v - Delta^2)
    """

    def optimiser(delta: np.ndarray, m: np.ndarray, v: np.ndarray):
        m = beta_1 * m + (1 - beta_1) * delta
        v = v - (1 - beta_2) * delta**2 * np.sign(v - delta**2)
        return lr * m / (np.sqrt(v) + adaptivity), m, v

    return _optimised(uploads, state, {"m": 0.0, "v": adaptivity**2}, optimiser)


def _optimised(
    uploads: Uploads, state: State, starts: dict[str, float], optimiser: Optimiser
) -> tuple[Pieces, Pieces]:
    """Pieces of the model and of the state; `starts` has each slot before round 1."""
    average = mean(uploads)

    def stepped(name: str) -> Iterator[tuple[np.ndarray, ...]]:
        """The next model and the next slots, piece by piece."""
        shares = list(uploads.shares(name))
        moves = uploads.combine(name, lambda c: _move(c, shares), parent=True)
        slots = [state(f"{s}.{name}") if state else repeat(starts[s]) for s in starts]
        for (x, delta), *old in zip(moves, *slots, strict=False):
            step, *new = optimiser(delta, *(np.asarray(o, np.float64) for o in old))
            yield tuple(a.astype(uploads.weights[name]) for a in (x + step, *new))

    def model(name: str) -> Iterator[np.ndarray]:
        if name not in uploads.weights:
            return average(name)
        return (found[0] for found in stepped(name))

    def next_state(name: str) -> Iterator[np.ndarray]:
        slot, _, tensor = name.partition(".")
        place = 1 + list(starts).index(slot)
        return (found[place] for found in stepped(tensor))

    return model, next_state


def _move(column: Iterator[np.ndarray], shares: list[float]) -> np.ndarray:
    """x and Delta of one piece, (2, n)."""
    x = next(column).astype(np.float64)
    total = weighted_sum((array.astype(np.float64) for array in column), shares)
    return np.stack([x, total - x])
