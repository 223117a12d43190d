"""Settings of classifiers, without torch."""

from dataclasses import dataclass

GAMMA = 0.1


@dataclass(frozen=True)
class LinearSettings:
    """Training settings of a head; the defaults are FedCA's.

    The learning rate is multiplied by 0.1 at each milestone, counted in epochs.
    `momentum` is only for SGD. Weight decay is added to the gradient.
    """

    optimiser: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 1e-6
    momentum: float = 0.0
    epochs: int = 100
    batch_size: int = 512
    milestones: tuple[int, ...] = ()

    def lr_at(self, epoch: int) -> float:
        """Learning rate of an epoch, counted from 0."""
        return self.lr * GAMMA ** sum(epoch >= m for m in self.milestones)
