"""Input of a rule for models: the uploads, read piece by piece.

A rule is a function `rule(uploads, **options)` that returns a function from the name of
a tensor to the pieces of the result. A rule with memory between rounds is
`rule(uploads, state, **options)`: `state` is also a function from names to pieces, None
in the first round; the rule returns two functions, for the result and the next state. A
rule may first read the tensors any number of times (distances, angles, iterations).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

Combine = Callable[[Iterator[np.ndarray]], np.ndarray]
Stacked = Callable[[np.ndarray], np.ndarray]
Pieces = Callable[[str], Iterator[np.ndarray]]


class Uploads(Protocol):
    """Checkpoints in client order, with equal tensors.

    Models of earlier rounds may lack tensors: clients send some parts in some rounds.
    """

    @property
    def names(self) -> Sequence[str]:
        """Names of the tensors of the result."""

    @property
    def weights(self) -> Mapping[str, np.dtype]:
        """Types of the trained tensors: floats other than BatchNorm's statistics."""

    @property
    def clients(self) -> Sequence[int | str]:
        """Numbers or names of the clients."""

    @property
    def parent(self) -> bool:
        """Return whether the global model of the round is available.

        If so, functions may receive the parent's array first.
        """

    def shares(self, name: str) -> Sequence[float]:
        """Weights of the uploads that contain this tensor, with the sum 1."""

    def combine(
        self, name: str, function: Combine, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """Yield `function` of each piece of a tensor, over the uploads.

        An array is valid until the next array is taken: memory is one piece. Several
        threads combine the pieces: `function` must not depend on the order of pieces.
        """

    def stacked(
        self, name: str, function: Stacked, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """Yield `function` of each slice of a tensor, stacked over the uploads (m, n).

        Slices are short: memory is a few MB for each thread, for any number of uploads.
        `function` must not keep the array.
        """
