"""A queue of rows from earlier batches: first in, first out."""

import torch
from torch import Tensor, nn


class Queue(nn.Module):
    """At most `size` rows; the newest take the places of the oldest.

    `written` counts the rows that ever entered. It stays on the CPU, where looking at it
    does not wait for a GPU.
    """

    rows: Tensor
    written: Tensor

    def __init__(self, size: int, width: int, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, width, device=device))
        self.register_buffer("written", torch.zeros((), dtype=torch.long, device="cpu"))

    @property
    def filled(self) -> Tensor:
        """The rows that are there, in no particular order; none at first."""
        return self.rows[: int(self.written)]

    @property
    def full(self) -> bool:
        """Whether every place is taken."""
        return int(self.written) >= len(self.rows)

    @torch.no_grad()
    def add(self, rows: Tensor) -> None:
        """Let rows in; of more than the queue has room for, the last ones stay."""
        size, start = len(self.rows), int(self.written)
        place = torch.arange(start, start + len(rows), device=rows.device) % size
        self.rows[place[-size:]] = rows[-size:].to(self.rows.dtype)
        self.written += len(rows)
