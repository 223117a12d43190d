"""What a rule for models is given: all uploads, of which nothing is in memory yet.

A rule is a function `rule(uploads, **options)` that gives a function from the name of a
tensor to the pieces of the result. A rule that remembers from round to round is
`rule(uploads, state, **options)`: the state is such a function too, None in the first
round, and the rule returns two, of the result and of the next state. It may go through all tensors of all uploads first,
as often as it needs (distances between clients, angles, weights found by iteration).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

import numpy as np

Combine = Callable[[Iterator[np.ndarray]], np.ndarray]
Stacked = Callable[[np.ndarray], np.ndarray]
Pieces = Callable[[str], Iterator[np.ndarray]]


class Uploads(Protocol):
    """Checkpoints in client order, of the same tensors.

    Models of earlier rounds may lack some: clients send parts in some rounds only.
    """

    @property
    def names(self) -> Sequence[str]:
        """The tensors of the result."""

    @property
    def weights(self) -> Mapping[str, np.dtype]:
        """Types of the trained tensors: floats other than BatchNorm's statistics."""

    @property
    def clients(self) -> Sequence[int | str]:
        """The numbers or names of the clients."""

    @property
    def parent(self) -> bool:
        """Whether the global model that the clients started from is there too.

        What a function is given may then begin with the parent's.
        """

    def shares(self, name: str) -> Sequence[float]:
        """What each upload that has a tensor counts there; they sum to 1."""

    def combine(
        self, name: str, function: Combine, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """For each piece of a tensor, `function` of that piece of every upload in turn.

        An array is good until the next one is taken, so memory is one piece. Pieces are
        combined by several threads: `function` must not depend on their order.
        """

    def stacked(
        self, name: str, function: Stacked, parent: bool = False
    ) -> Iterator[np.ndarray]:
        """For each slice of a tensor, `function` of that slice of all uploads, (m, n).

        A slice is so short that memory is a few MB for each thread, however many
        uploads there are. `function` must not keep the array.
        """
