"""Views of the next step, computed by a second thread while a step computes.

The random numbers of a step depend only on the step, so the views have the same bytes at
any time. The thread repeats the request with which an earlier step began: an objective
that asks for other views, or draws other random numbers first, prepares nothing.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future

import torch
from torch import Generator, Tensor

from furlkit.data.augmentation import Augmentation

Request = tuple[Augmentation, int]  # Augmentation, number of views of each image.


class Ahead:
    """The first request of a step for views, and the views if they were prepared."""

    def __init__(self, generator: Generator) -> None:
        self._start = generator.get_state()
        self.first: Request | None = None
        self._prepared: tuple[Request, Future[tuple[Tensor, Tensor]]] | None = None

    def prepare(
        self, request: Request, views: Callable[[Generator], Tensor], thread: Executor
    ) -> None:
        """Compute the views of a request in the thread."""

        def compute() -> tuple[Tensor, Tensor]:
            generator = Generator()
            generator.set_state(self._start)
            return views(generator), generator.get_state()

        self._prepared = request, thread.submit(compute)

    def take(self, request: Request, generator: Generator) -> Tensor | None:
        """Return prepared views, and set the generator to the state after the draws.

        None without views of this request, or after other draws from the generator.
        Two passes over a batch with equal draws may both take the views.
        """
        if not torch.equal(generator.get_state(), self._start):
            return None
        self.first = request
        if self._prepared is None or self._prepared[0] != request:
            return None
        views, state = self._prepared[1].result()
        generator.set_state(state)
        return views
