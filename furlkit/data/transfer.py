"""Transfer of tensors from the CPU to a device: constants, and many in one copy.

A copy to a GPU takes about the time of a small operation, and a copy from memory that
is not pinned also makes the program wait. On the CPU nothing is copied.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate
from math import prod

import torch
from torch import Tensor

ALIGNMENT = 16  # Bytes; a view as another type must begin at a multiple of its size.


Kind = tuple[tuple[int, ...], torch.dtype]  # Shape and type of a tensor.


class Parcel:
    """CPU tensors in one block of memory, pinned for a GPU, and sent in one copy.

    `content` are the tensors to fill before they are sent. In `room` bytes, small
    tensors can be added later.
    """

    def __init__(
        self, kinds: Sequence[Kind], device: torch.device, room: int = 0
    ) -> None:
        self._kinds, self._device = list(kinds), device
        pinned = device.type == "cuda"
        size = _places(kinds)[-1] + room
        self._block = torch.empty(size, dtype=torch.uint8, pin_memory=pinned)
        self._arrived: list[Tensor] | None = None
        self.content = self._parts(self._block)

    def add(self, tensors: Sequence[Tensor]) -> bool:
        """Add tensors; return False if the parcel is full, or was sent already."""
        kinds = [*self._kinds, *map(_kind, tensors)]
        if self._arrived is not None or _places(kinds)[-1] > len(self._block):
            return False
        before, self._kinds = len(self._kinds), kinds
        self.content = self._parts(self._block)
        for target, tensor in zip(self.content[before:], tensors, strict=True):
            target.copy_(tensor)
        return True

    def arrive(self) -> list[Tensor]:
        """The tensors on the device; the first call sends them."""
        if self._arrived is None:
            self._arrived = self._parts(self._block.to(self._device, non_blocking=True))
        return self._arrived

    def _parts(self, block: Tensor) -> list[Tensor]:
        return [
            block[start : start + prod(shape) * kind.itemsize].view(kind).view(shape)
            for start, (shape, kind) in zip(
                _places(self._kinds), self._kinds, strict=False
            )
        ]


def _kind(tensor: Tensor) -> Kind:
    return tuple(tensor.shape), tensor.dtype


def _places(kinds: Sequence[Kind]) -> list[int]:
    """Begin of each tensor in a block, and the end of all."""
    sizes = (prod(shape) * kind.itemsize for shape, kind in kinds)
    return [0, *accumulate(-(-size // ALIGNMENT) * ALIGNMENT for size in sizes)]


def send(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copy CPU tensors to a device in one transfer."""
    if device.type == "cpu":
        return list(tensors)
    parcel = Parcel([], device, room=_places([*map(_kind, tensors)])[-1])
    parcel.add(tensors)
    return parcel.arrive()


def constant(values: float | tuple, like: Tensor) -> Tensor:
    """Tensor of fixed numbers with the type and device of `like`, copied once."""
    return _constant(values, like.dtype, like.device)


@cache
def _constant(
    values: float | tuple, dtype: torch.dtype, device: torch.device
) -> Tensor:
    # A tensor from inference mode could not take part in a loss later.
    with torch.inference_mode(False):
        return torch.tensor(values, dtype=dtype).to(device)
