"""Length and speed of a training: epochs, learning rates, phases; no torch."""

import math
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from furlkit.errors import UsageError


class Phase(NamedTuple):
    """Parts of a model trained for some epochs."""

    parts: tuple[str, ...]
    epochs: int


@dataclass(frozen=True)
class Plan:
    """Length and speed of a training.

    A cosine schedule spans `schedule_rounds` rounds of `epochs` epochs; this training
    is round `first_round` (from 0) of the schedule; warm-up is in epochs at the start.

    `phases` divide the epochs: each phase trains some parts of the model with a new
    optimiser; other parts stay unchanged. Without phases every part is trained. With
    `restart_optimiser` every epoch has a new optimiser. `steps` overrides `epochs`.

    At each of `milestones`, in epochs through all rounds, the rate is multiplied by
    `milestone_factor`. `head_lr` is the classifier's rate, with the schedule of `lr`.
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

    def of_round(self, round_: int) -> "Plan":
        """Plan of a round, counted from 1; a schedule of several rounds continues."""
        first = round_ - 1 if self.schedule_rounds > 1 else self.first_round
        if self.schedule == "cosine" and first >= self.schedule_rounds:
            raise UsageError(
                f"--schedule-rounds {self.schedule_rounds}: this is round {round_}, and "
                "a cosine schedule has reached 0 by then; give the number of all rounds"
            )
        return replace(self, first_round=first)

    def phase_at(self, epoch: int) -> int:
        """Number of the phase of an epoch, counted from 0."""
        ends = accumulate(phase.epochs for phase in self.phases)
        return sum(epoch >= end for end in ends)

    def lr_at(self, step: int, steps: int) -> float:
        """Learning rate of a step, counted from 0, with `steps` per epoch."""
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
        """Factor of the learning rate for a part of the model."""
        if self.head_lr is None or part != "classifier":
            return 1.0
        return self.head_lr / self.lr


@dataclass(frozen=True)
class Execution:
    """Execution on the device: affects rounding, not the mathematics."""

    channels_last: bool = True
    compile: bool = False
    save_every: float = 60.0


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
