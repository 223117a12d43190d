"""Random rows, nets of three linear maps and constant batches for tests of objectives."""

from typing import Any

import torch
from torch import Tensor, nn

from furlkit.models.heads import Prototypes


def rows(*shape: int, seed: int = 0) -> Tensor:
    """Return normal numbers in double precision."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


class PrototypeNet(nn.Module):
    """Linear maps under the names of a net's parts, with five prototypes."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Linear(2, 3)
        self.projector = nn.Linear(3, 4)
        self.prototypes = Prototypes(4, 5)
        self.prototypes.reset(torch.Generator().manual_seed(0))


class TwoImages:
    """Two views of two images, the same at every step."""

    def two_views(self) -> Tensor:
        return torch.tensor([[1.0, 2.0], [0.5, -1.0], [2.0, 1.0], [-1.0, 3.0]])


def descend(learner: Any, lr: float = 0.1) -> Any:
    """Take a step of plain gradient descent; returns the forward pass."""
    learner.net.zero_grad()
    forward = learner.step(TwoImages())
    sum(forward.losses.values()).backward()
    with torch.no_grad():
        for p in learner.net.parameters():
            p -= lr * (0 if p.grad is None else p.grad)
    learner.after_step()
    return forward
