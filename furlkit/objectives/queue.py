"""A queue of rows from earlier batches: first in, first out."""

import torch
from torch import Tensor, nn


class Queue(nn.Module):
    """At most `size` rows; the newest rows replace the oldest.

    `written` is the number of rows ever added. `written` stays on the CPU: reading a
    number from a GPU would wait for the GPU.
    """

    rows: Tensor
    written: Tensor

    def __init__(self, size: int, width: int, device: torch.device) -> None:
        super().__init__()
        self.register_buffer("rows", torch.zeros(size, width, device=device))
        self.register_buffer("written", torch.zeros((), dtype=torch.long, device="cpu"))

    @property
    def filled(self) -> Tensor:
        """Rows added so far, in no particular order; empty at first."""
        return self.rows[: int(self.written)]

    @property
    def full(self) -> bool:
        """Return True if the queue holds `size` rows."""
        return int(self.written) >= len(self.rows)

    @torch.no_grad()
    def add(self, rows: Tensor) -> None:
        """Add rows; if there are more than `size`, keep the last."""
        size, start = len(self.rows), int(self.written)
        place = torch.arange(start, start + len(rows), device=rows.device) % size
        self.rows[place[-size:]] = rows[-size:].to(self.rows.dtype)
        self.written += len(rows)
