"""Transfer of small tensors from the CPU to a device: constants, and many in one copy.

A copy to a GPU takes about the time of a small operation, and a copy from memory that
is not pinned also makes the program wait. On the CPU nothing is copied.
"""

from collections.abc import Sequence
from functools import cache
from itertools import accumulate

import torch
from torch import Tensor

ALIGNMENT = 16  # Bytes; a view as another type must begin at a multiple of its size.


def send(tensors: Sequence[Tensor], device: torch.device) -> list[Tensor]:
    """Copy CPU tensors to a device in one transfer."""
    if device.type == "cpu":
        return list(tensors)
    places = [0, *accumulate(-(-t.nbytes // ALIGNMENT) * ALIGNMENT for t in tensors)]
    pinned = device.type == "cuda"
    parcel = torch.empty(places[-1], dtype=torch.uint8, pin_memory=pinned)
    for tensor, start in zip(tensors, places, strict=False):
        content = tensor.contiguous().view(-1).view(torch.uint8)
        parcel[start : start + tensor.nbytes] = content
    arrived = parcel.to(device, non_blocking=True)
    return [
        arrived[start : start + tensor.nbytes].view(tensor.dtype).view(tensor.shape)
        for tensor, start in zip(tensors, places, strict=False)
    ]


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
