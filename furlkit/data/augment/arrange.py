"""Plan the operations on a batch on the CPU, then run them on the device of the images.

Random draws are made on the CPU, so the parameters of all operations are known before an
image is touched. They travel to the device in one copy. The draws of a batch are small,
and numpy needs a fraction of torch's time for arrays of this size.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Generator, Tensor

from furlkit.data.transfer import send

Operation = Callable[..., Any]
Array = np.ndarray


class Planned(NamedTuple):
    """Operation that changes the images of some rows in place; None reorders all."""

    part: slice | None
    operation: Operation
    parameters: tuple[Array, ...]


class Operations:
    """Operations on n images, which are reordered in between and restored at the end.

    Images with equal operations become adjacent. Reordering costs one copy. In
    return, the images of an operation are a slice, which the operation can change in
    place without masks and without a scatter.
    """

    def __init__(self, keys: Array) -> None:
        """Begin with the images sorted by keys (n,)."""
        self.who = keys.argsort(kind="stable")  # (n,): image number of each row
        self._sorted_by = keys
        self._first: tuple[Operation, tuple[Array, ...]] = torch.clone, ()
        self._planned: list[Planned] = []

    def sort(self, keys: Array, kinds: int) -> list[slice]:
        """Sort the images by key and return the rows of key 0, 1, ..., kinds - 1.

        keys: (n,) integers in the original order of the images.
        """
        if keys is not self._sorted_by:
            self._reorder(keys[self.who])
            self._sorted_by = keys
        ends = np.bincount(keys, minlength=kinds).cumsum().tolist()
        return [slice(a, b) for a, b in zip([0, *ends], ends, strict=False)]

    def _reorder(self, keys: Array) -> None:
        """Plan to sort the rows by keys, one per row, unless they are sorted."""
        if (keys[1:] < keys[:-1]).any():
            rows = keys.argsort(kind="stable")
            self.who = self.who[rows]
            self._planned.append(Planned(None, _reorder, (rows,)))

    def change(self, part: slice, operation: Operation, *parameters: Array) -> None:
        """Plan `operation(images[part], *parameters)`, which works in place."""
        self._planned.append(Planned(part, operation, parameters))

    def parcel(self) -> list[Tensor]:
        """All parameters, in the order in which `run` needs them on the device."""
        places = np.empty_like(self.who)  # of the images, among the rows
        places[self.who] = np.arange(len(places))
        planned = [p for step in self._planned for p in step.parameters]
        return [*map(torch.from_numpy, [places, *self._first[1], *planned])]

    def begin(self, operation: Operation, *parameters: Array) -> None:
        """Plan `operation(source, *parameters)`, which makes the first images."""
        self._first = operation, parameters

    def run(self, source: Tensor, sent: Sequence[Tensor] | None = None) -> Tensor:
        """Run all operations on a source; the result has the original order.

        `sent` is the parcel on the device of the source, if it is there already.
        """
        arrived = iter(send(self.parcel(), source.device) if sent is None else sent)
        last, (first, parameters) = next(arrived), self._first
        with torch.inference_mode(), full_precision(source.device):
            images = first(source, *(next(arrived) for _ in parameters))
            for part, operation, planned in self._planned:
                own = [next(arrived) for _ in planned]
                if part is None:
                    images = operation(images, *own)
                else:
                    operation(images[part], *own)
        # Outside inference mode: autograd cannot use inference tensors.
        return _reorder(images, last)


def _reorder(images: Tensor, rows: Tensor) -> Tensor:
    return images.index_select(0, rows)


def full_precision(device: torch.device) -> AbstractContextManager:
    """Disable a caller's autocast, which would round the products of a resize.

    Most callers have none, and entering autocast costs more than many an operation.
    """
    if torch.is_autocast_enabled(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def uniform(generator: Generator, *shape: int) -> Array:
    """Random float32 numbers in [0, 1)."""
    return torch.rand(shape, generator=generator).numpy()


def draw_chosen(n: int, probability: float, generator: Generator) -> Array:
    """(n,) bool: True with this probability, for images that get an operation."""
    return uniform(generator, n) < probability


def per_image(values: Tensor, images: Tensor) -> Tensor:
    """(n,) parameters, shaped to act on (n, C, H, W)."""
    return values.to(images.dtype).view(-1, 1, 1, 1)
