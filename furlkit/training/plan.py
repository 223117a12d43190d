"""How long and how fast to train: epochs, learning rates, phases."""

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import NamedTuple

from furlkit.errors import UsageError


class Phase(NamedTuple):
    """The parts of a model that are trained for some epochs."""

    parts: tuple[str, ...]
    epochs: int


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    A cosine schedule spans `schedule_rounds` rounds of `epochs` epochs and starts this training
    at round `first_round` (from 0) of them; warm-up is in epochs at its start.

    `phases` divide the epochs: each trains some parts of the model and leaves all others
    as they are, with an optimiser of its own. Without phases every part is trained.
    With `restart_optimiser` every epoch has an optimiser of its own.
    With `steps` the training ends after so many, whatever `epochs` says.

    At each of `milestones`, in epochs through all rounds, the rate is multiplied by
    `milestone_factor`. `head_lr` is the classifier's own rate, on the same schedule.
    """

    epochs: int
    batch_size: int
    optimiser: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 1e-6
    momentum: float = 0.9
    schedule: str = "constant"
    warmup: float = 0.0
    schedule_rounds: int = 1
    first_round: int = 0
    precision: str = "float32"
    phases: tuple[Phase, ...] = ()
    restart_optimiser: bool = False
    steps: int | None = None
    milestones: tuple[int, ...] = ()
    milestone_factor: float = 0.1
    head_lr: float | None = None

    def __post_init__(self) -> None:
        if self.phases and sum(phase.epochs for phase in self.phases) != self.epochs:
            raise ValueError(f"{self.phases} do not add up to {self.epochs} epochs")

    def phase_at(self, epoch: int) -> int:
        """The number of the phase that an epoch, counted from 0, belongs to."""
        ends = accumulate(phase.epochs for phase in self.phases)
        return sum(epoch >= end for end in ends)

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, with `steps` in an epoch."""
        each_round = self.steps or self.epochs * steps
        now = self.first_round * each_round + step
        warm = self.warmup * steps
        if now < warm:
            return self.lr * (now + 1) / (warm + 1)
        if self.schedule == "constant":
            past = sum(now >= epoch * steps for epoch in self.milestones)
            return self.lr * self.milestone_factor**past
        span = max(self.schedule_rounds * each_round - warm, 1)
        return self.lr / 2 * (1 + math.cos(math.pi * min((now - warm) / span, 1)))

    def factor_of(self, part: str) -> float:
        """What the learning rate is multiplied by for a part of the model."""
        if self.head_lr is None or part != "classifier":
            return 1.0
        return self.head_lr / self.lr


def parse_phases(text: str) -> tuple[Phase, ...]:
    """projector:5,encoder:5 as phases; parts of one phase are joined by +."""
    phases = []
    for word in text.split(","):
        parts, _, epochs = word.partition(":")
        if not all(parts.split("+")) or not epochs.isdecimal() or int(epochs) < 1:
            raise UsageError(
                f"--phases {text}: expected parts and epochs, as projector:5,encoder:5"
            )
        phases.append(Phase(tuple(parts.split("+")), int(epochs)))
    return tuple(phases)
