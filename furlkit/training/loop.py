"""The only training loop.

A method hands in a module, which holds everything that is trained or carried along
(weights, momentum copies, queues), and `loss_of`, which makes of a batch a loss. All
randomness is derived from the step, so model, optimiser and step number are the whole
state: a training that is killed and taken up again ends with the same bytes.
"""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from furlkit.data.batches import Batch, Images
from furlkit.errors import FurlkitError
from furlkit.evaluation.collapse import effective_rank, spread
from furlkit.randomness import derive, torch_generator
from furlkit.runtime import check_precision
from furlkit.training import signals as stopping
from furlkit.training.optimisers import SGD, Adam, LossScale, Optimiser


@dataclass(frozen=True)
class Plan:
    """How long and how fast to train.

    A cosine schedule spans `rounds` rounds of `epochs` epochs and starts this training
    at round `first_round` (from 0) of them; warm-up is in epochs at its start.
    """

    epochs: int
    batch_size: int
    optimiser: str = "adam"
    lr: float = 1e-3
    weight_decay: float = 1e-6
    momentum: float = 0.9
    schedule: str = "constant"
    warmup: float = 0.0
    rounds: int = 1
    first_round: int = 0
    precision: str = "float32"

    def lr_at(self, step: int, steps: int) -> float:
        """The learning rate of a step, counted from 0, with `steps` in an epoch."""
        now = self.first_round * self.epochs * steps + step
        warm = self.warmup * steps
        if now < warm:
            return self.lr * (now + 1) / (warm + 1)
        if self.schedule == "constant":
            return self.lr
        span = max(self.rounds * self.epochs * steps - warm, 1)
        return self.lr / 2 * (1 + math.cos(math.pi * min((now - warm) / span, 1)))


class DivergedError(FurlkitError):
    """The numbers left what floats can hold; going on would be of no use."""

    def __init__(self, what: str):
        super().__init__(
            f"{what}; nothing was written; lower --lr, or train with --precision float32"
        )


class Keeper(Protocol):
    """Keeps the progress of a training: `files.progress` behind a clock."""

    def restore(self) -> tuple[int, dict[str, Tensor], dict[str, Any]] | None:
        """Step, tensors and values of an interrupted training, or None."""

    def due(self, finished: bool) -> bool:
        """Whether it is time to save; `finished` says that no step is left."""

    def save(self, step: int, tensors: dict[str, Tensor], values: dict) -> None:
        """Save a state."""


@dataclass
class Epoch:
    """What one epoch came to: means over its steps, and the collapse meter."""

    epoch: int
    step: int
    losses: dict[str, float]
    lr: float
    spread: float
    effective_rank: float
    samples_per_second: float


@dataclass
class _State:
    """What goes on being counted through an epoch, across interruptions."""

    step: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0

    def add(self, terms: dict[str, Tensor]) -> None:
        for name, term in terms.items():
            # MPS has no float64.
            wide = torch.float32 if term.device.type == "mps" else torch.float64
            value = term.detach().to(wide)
            self.sums[name] = self.sums[name] + value if name in self.sums else value


Purpose = tuple[int, *tuple[int | str, ...]]
LossOf = Callable[[Batch], tuple[dict[str, Tensor], Tensor]]


def train(
    module: nn.Module,
    loss_of: LossOf,
    images: Images,
    plan: Plan,
    purpose: Purpose,
    keeper: Keeper,
) -> Iterator[Epoch | int]:
    """Train, yielding the step number after each step and an `Epoch` after each epoch.

    `purpose` (seed, round, client, ...) is what all random draws are derived from.
    """
    trainer = _Trainer(module, plan)
    check_precision(plan.precision, trainer.device)
    state = _resume(trainer, keeper)
    steps = steps_per_epoch(len(images), plan.batch_size)
    module.train()
    with stopping.deferring():
        while state.step < plan.epochs * steps:
            began = time.perf_counter()
            batch = _batch(images, plan, purpose, state.step)
            lr = plan.lr_at(state.step, steps)
            terms, z = trainer.step(loss_of, batch, lr)
            state.step += 1
            state.add(terms)
            state.seconds += time.perf_counter() - began
            yield state.step
            if state.step % steps == 0:
                yield _finish_epoch(state, z, lr, steps, len(batch.index))
            _keep(trainer, keeper, state, state.step == plan.epochs * steps)
    _check_finite(module)


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Full batches only, unless there is not even one."""
    return max(examples // batch_size, 1)


class _Trainer:
    """A module, its optimiser, and mixed precision."""

    def __init__(self, module: nn.Module, plan: Plan):
        self.module = module
        self.device = next(module.parameters()).device
        self.optimiser = _optimiser(module, plan)
        self.dtype = getattr(torch, plan.precision)
        self.scale = LossScale(self.dtype is torch.float16)

    def step(self, loss_of: LossOf, batch: Batch, lr: float):
        """One step of the optimiser; gives the loss terms and the representation."""
        mixed = self.dtype is not torch.float32
        with torch.autocast(self.device.type, self.dtype, enabled=mixed):
            terms, z = loss_of(batch)
        loss = torch.stack([term.float() for term in terms.values()]).sum()
        self.optimiser.clear()
        (loss * self.scale.scale).backward()
        if self.scale.usable(self.optimiser.gradients()[1]):
            self.optimiser.step(lr)
        return terms, z

    def tensors(self) -> dict[str, Tensor]:
        """Everything that must be saved and is a tensor."""
        state = {f"module.{k}": v for k, v in self.module.state_dict().items()}
        slots = {f"optimiser.{k}": v for k, v in self.optimiser.state().items()}
        return {**state, **slots}

    def values(self) -> dict[str, Any]:
        """Everything that must be saved and is a number."""
        return {
            "optimiser_steps": self.optimiser.steps,
            "scale": self.scale.scale,
            "good_steps": self.scale.good_steps,
        }

    def load(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Take up what `tensors` and `values` gave."""
        self.module.load_state_dict(_below("module.", tensors))
        slots = _below("optimiser.", tensors)
        self.optimiser.load(slots, values["optimiser_steps"])
        self.scale.scale, self.scale.good_steps = values["scale"], values["good_steps"]


def _below(prefix: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)
    }


def _optimiser(module: nn.Module, plan: Plan) -> Optimiser:
    weights = [p for p in module.parameters() if p.requires_grad]
    if plan.optimiser == "adam":
        return Adam(weights, plan.weight_decay)
    return SGD(weights, plan.weight_decay, plan.momentum)


def positions(images: Images, batch_size: int, purpose: Purpose, step: int) -> Tensor:
    """Which images a step, counted from 0, takes: each epoch has an order of its own."""
    epoch, place = divmod(step, steps_per_epoch(len(images), batch_size))
    order = images.order(derive(*purpose, "order", epoch))
    return order[place * batch_size : (place + 1) * batch_size]


def _batch(images: Images, plan: Plan, purpose: Purpose, step: int) -> Batch:
    index = positions(images, plan.batch_size, purpose, step)
    return images.batch(index, torch_generator(*purpose, "augment", step), step)


def _resume(trainer: _Trainer, keeper: Keeper) -> _State:
    found = keeper.restore()
    if found is None:
        return _State()
    step, tensors, values = found
    trainer.load(tensors, values)
    sums = {k: v.to(trainer.device) for k, v in _below("sum.", tensors).items()}
    return _State(step, sums, values["seconds"])


def _keep(trainer: _Trainer, keeper: Keeper, state: _State, finished: bool) -> None:
    if keeper.due(finished) or stopping.requested():
        sums = {f"sum.{name}": value for name, value in state.sums.items()}
        values = {**trainer.values(), "seconds": state.seconds}
        keeper.save(state.step, {**trainer.tensors(), **sums}, values)
        stopping.stop()


def _finish_epoch(
    state: _State, z: Tensor, lr: float, steps: int, batch_size: int
) -> Epoch:
    began = time.perf_counter()
    losses = {name: float(value) / steps for name, value in state.sums.items()}
    state.seconds += time.perf_counter() - began  # A GPU gets here before its work.
    epoch = state.step // steps
    for name, value in losses.items():
        if not math.isfinite(value):
            raise DivergedError(f"the loss {name} became {value} in epoch {epoch}")
    z = z.detach().float()
    rate = steps * batch_size / max(state.seconds, 1e-9)
    state.sums, state.seconds = {}, 0.0
    return Epoch(epoch, state.step, losses, lr, spread(z), effective_rank(z), rate)


def _check_finite(module: nn.Module) -> None:
    """The last step's loss was made before its update, which may have been too far."""
    for name, tensor in module.state_dict().items():
        if not torch.isfinite(tensor).all():
            raise DivergedError(f"{name} became NaN or infinite in the last steps")
