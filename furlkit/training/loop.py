"""The only training loop.

A method provides a learner: a module with the trained and carried tensors (weights,
momentum copies, queues) and a `step` that computes the losses of a batch. Random draws
depend only on the step, so learner, optimiser and step number are the whole state: a
training that is killed and resumed ends with the same bytes.
"""

import math
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from furlkit.data.ahead import Request
from furlkit.data.batches import Batch, Images, Positions, prefetch
from furlkit.errors import FurlkitError
from furlkit.evaluation.collapse import effective_rank, spread
from furlkit.evaluation.quality import quality
from furlkit.objectives.learner import Forward
from furlkit.randomness import derive, torch_generator
from furlkit.runtime import check_precision, has_free_core
from furlkit.training import signals
from furlkit.training.optimisers import SGD, Adam, LossScale, Optimiser, wide_dtype
from furlkit.training.plan import Plan
from furlkit.weights import below, part_of, within

# Names of modules that contain or are nets: a phase trains equal parts of two models.
_HOLDERS = ("learner", "own", "net")
_CLOCK = ("seconds", "input_seconds", "cpu_seconds")  # Sums that a progress file keeps.
Purpose = tuple[int, *tuple[int | str, ...]]
Term = Callable[[Batch, Forward], Tensor | Forward]
Named = dict[str, Tensor]


@dataclass(frozen=True)
class Job:
    """A training: learner, images, plan and purpose.

    Random draws are derived from `purpose` (seed, round, client, ...). `terms` are added
    to the learner's losses. `begin` is called before the first step, but not when a
    training is resumed. `where` goes into every line of the journal; `steps_before` is
    added to the journal's steps. `may_collapse` suppresses the warning about a collapse.
    `pairs`: the objective compares two views of every image, first views first.
    """

    title: str
    learner: Any
    images: Images
    plan: Plan
    purpose: Purpose
    terms: dict[str, Term] = field(default_factory=dict)
    begin: Callable[[], None] | None = None
    where: dict[str, int] = field(default_factory=dict)
    steps_before: int = 0
    may_collapse: bool = False
    pairs: bool = False

    @property
    def epoch_steps(self) -> int:
        """The steps of an epoch."""
        return steps_per_epoch(len(self.images), self.plan.batch_size)

    @property
    def steps(self) -> int:
        """All steps of the training."""
        return self.plan.steps or self.epoch_steps * self.plan.epochs

    @property
    def epochs(self) -> int:
        """Number of epochs; the last epoch may be incomplete."""
        return -(-self.steps // self.epoch_steps)


class DivergedError(FurlkitError):
    """A value became NaN or infinite."""

    def __init__(self, what: str):
        super().__init__(
            f"{what}; nothing was written; lower --lr, or train with --precision float32"
        )


class Keeper(Protocol):
    """Keeps the progress of a training: `files.progress` behind a clock."""

    def restore(self) -> tuple[int, dict[str, Tensor], dict[str, Any]] | None:
        """Step, tensors and values of an interrupted training, or None."""

    def refuse(self, error: Exception) -> None:
        """Discard the restored state: the training starts over."""

    def due(self, finished: bool) -> bool:
        """Return whether to save now; `finished` means that no step is left."""

    def save(self, step: int, tensors: dict[str, Tensor], values: dict) -> None:
        """Save a state."""


class NoProgress:
    """A keeper without files, for trainings that are never resumed."""

    def restore(self) -> None:
        """Find no earlier state: every training starts at step 0."""

    def refuse(self, error: Exception) -> None:
        """Do nothing: there is no state to refuse."""

    def due(self, finished: bool) -> bool:
        """Never ask for a state."""
        return False

    def save(self, step: int, tensors: dict[str, Tensor], values: dict) -> None:
        """Drop the state."""


class Meter(NamedTuple):
    """The collapse meter of the last step's representations."""

    spread: float
    effective_rank: float


class Epoch(NamedTuple):
    """An epoch: mean losses over the steps, and the collapse meter at the end.

    `terms` has the meters of terms with a separate forward pass, by name, and `measures`
    the extra measures of the learner. With --steps the last epoch may be shorter. `clock`
    has the mean seconds of a step, the share of time for waiting for images, and on a GPU
    the peak memory. `quality` has RankMe and uniformity of the last step's rows, and the
    alignment of two views.
    """

    epoch: int
    step: int
    losses: dict[str, float]
    lr: float
    spread: float
    effective_rank: float
    samples_per_second: float
    measures: dict[str, Any] = {}  # noqa: RUF012 - nothing changes it
    terms: dict[str, dict[str, float]] | None = None
    clock: dict[str, float] = {}  # noqa: RUF012 - nothing changes it
    quality: dict[str, float] = {}  # noqa: RUF012 - nothing changes it

    def facts(self) -> dict[str, Any]:
        """The fields by name, with the learner's measures, the clock and the quality."""
        own = {k: v for k, v in self._asdict().items() if v is not None}
        more = own.pop("quality")
        return {**own.pop("measures"), **own.pop("clock"), **more, **own}

    def meters(self) -> dict[str, Meter]:
        """Collapse meters by the name of the term; "" for the objective."""
        own = Meter(self.spread, self.effective_rank)
        return {"": own, **{k: Meter(**v) for k, v in (self.terms or {}).items()}}


class Step(NamedTuple):
    """A finished step, counted from 1, and the epoch if the step ends an epoch."""

    number: int
    epoch: Epoch | None


@dataclass
class _State:
    """Sums over an epoch, across interruptions."""

    step: int = 0
    sums: dict[str, Tensor] = field(default_factory=dict)
    seconds: float = 0.0
    input_seconds: float = 0.0
    cpu_seconds: float = 0.0  # of all threads

    def add(self, losses: dict[str, Tensor]) -> None:
        for name, loss in losses.items():
            if name in self.sums:
                self.sums[name] += loss.detach()
            else:
                wide = wide_dtype(loss.device)
                self.sums[name] = loss.detach().to(wide, copy=True)


def _second_thread() -> ThreadPoolExecutor:
    """A thread with the limit of --threads, which OpenMP keeps for each thread."""
    threads = (torch.get_num_threads(),)
    return ThreadPoolExecutor(1, initializer=torch.set_num_threads, initargs=threads)


def train(job: Job, keeper: Keeper, ahead: bool | None = None) -> Iterator[Step]:
    """Train a learner, yielding after each step.

    `ahead`: a thread prepares the views of the next step; by default on a CPU with a
    free core.
    """
    images, plan, steps = job.images, job.plan, job.epoch_steps
    trainer = Trainer(job.learner, job.terms, plan)
    check_precision(plan.precision, trainer.device)
    state = _resume(trainer, keeper, job)
    if ahead is None:
        ahead = trainer.device.type == "cpu" and has_free_core()
    with signals.deferring(), _second_thread() as thread:
        batches = _batches(job, state.step, thread if ahead else None)
        while state.step < job.steps:
            began, cpu_began = time.perf_counter(), time.process_time()
            epoch, place = divmod(state.step, steps)
            if place == 0:
                trainer.begin_epoch(images, epoch, job.purpose)
            batch, waited = next(batches), images.seconds
            lr = plan.lr_at(state.step, steps)
            losses, compared = trainer.step(batch, lr)
            state.input_seconds += images.seconds - waited
            state.step += 1
            state.add(losses)
            state.seconds += time.perf_counter() - began
            state.cpu_seconds += time.process_time() - cpu_began
            ended = None
            if state.step % steps == 0 or state.step == job.steps:
                state.seconds += _wait_for(trainer.device)
                ended = _finish_epoch(state, compared, lr, job, len(batch.index_cpu))
                ended = ended._replace(measures=trainer.end_epoch(ended.losses))
            yield Step(state.step, ended)
            _keep(trainer, keeper, state, state.step == job.steps)
    _check_finite(job.learner)


def _batches(job: Job, first: int, thread: Executor | None) -> Iterator[Batch]:
    """Batches of the steps from `first`; the thread prepares views one step ahead."""
    _prefetch(job, first)
    following, request = _batch_at(job, first, None, thread), None
    for step in range(first, job.steps):
        batch = following
        _prefetch(job, step + 1)
        if step + 1 < job.steps:
            following = _batch_at(job, step + 1, request, thread)
        yield batch
        request = batch.ahead.first if batch.ahead else None


def _batch_at(
    job: Job, step: int, request: Request | None, thread: Executor | None
) -> Batch:
    index, rng = _positions_at(job, step), _generator_at(job, step)
    batch = job.images.batch(index, rng, step)
    return batch.prepared(request, thread) if thread else batch


def _positions_at(job: Job, step: int) -> Positions:
    return positions(job.images, job.plan.batch_size, job.purpose, step)


def _generator_at(job: Job, step: int) -> torch.Generator:
    return torch_generator(*job.purpose, "augment", step)


def _prefetch(job: Job, step: int) -> None:
    """Gather mapped images of a step, while the step before computes."""
    if step == job.steps:
        return
    terms = [term for term in job.terms.values() if hasattr(term, "batch_at")]
    own = [_encoded_batch(job, step)] if job.images.mapped else []
    prefetch([*own, *(term.batch_at(step) for term in terms)])


def _encoded_batch(job: Job, step: int) -> Batch:
    index, rng = _positions_at(job, step).cpu, _generator_at(job, step)
    if choose := getattr(job.learner, "choose", None):
        index = choose(index, rng)
    return job.images.batch(index, rng, step)


def steps_per_epoch(examples: int, batch_size: int) -> int:
    """Number of full batches, at least 1."""
    return max(examples // batch_size, 1)


def _wrong_result(learner: Any, result: Any) -> FurlkitError:
    """Error about the objective of another package."""
    step = getattr(learner, "function", learner.step)
    return FurlkitError(
        f"{step.__module__}:{step.__qualname__} returned a {type(result).__name__}; "
        "expected Forward(losses, views, h, z) of furlkit.objectives.learner, with the "
        "losses by name"
    )


class Trainer:
    """A learner, its terms, its optimiser and mixed precision.

    `step` is a seam: tests and profilers may wrap it to see or end a training.
    """

    def __init__(self, learner: Any, terms: dict[str, Term], plan: Plan):
        self.learner, self._terms, self.plan = learner, terms, plan
        self.device = next(learner.parameters()).device
        self._trained = {k: p for k, p in learner.named_parameters() if p.requires_grad}
        self.dtype = getattr(torch, plan.precision)
        self.scale = LossScale(self.dtype is torch.float16, self.device)
        self.enter(0)

    def enter(self, phase: int) -> None:
        """Train the parts of a phase from here on, with a new optimiser."""
        self.phase, phases = phase, self.plan.phases
        parts = phases[phase].parts if phases else None
        for name, parameter in self._trained.items():
            parameter.requires_grad_(_trains(name, parts))
        self.learner.train()
        for name, module in self.learner.named_modules():
            # In eval mode BatchNorm leaves the statistics of frozen parts alone.
            frozen = getattr(module, "frozen", False)
            if frozen or (name and not _trains(name, parts)):
                module.training = False
        weights = {k: p for k, p in self._trained.items() if p.requires_grad}
        self.optimiser = _optimiser(weights, self.plan)

    def begin_epoch(self, images: Images, epoch: int, purpose: Purpose) -> None:
        """Change the phase or the optimiser; let the learner prepare the epoch."""
        phase = self.plan.phase_at(epoch)
        if phase != self.phase or self.plan.restart_optimiser:
            self.enter(phase)
        if hasattr(self.learner, "begin_epoch"):
            rng = torch_generator(*purpose, "epoch", epoch)
            self.learner.begin_epoch(images, epoch, rng)

    def end_epoch(self, losses: dict[str, float]) -> dict[str, Any]:
        """Extra measures of the learner for the journal."""
        if self.scale.vanished():
            raise DivergedError("the gradients overflow float16 at every scale")
        told = getattr(self.learner, "end_epoch", None)
        return told(losses) if told else {}

    def step(self, batch: Batch, lr: float) -> tuple[Named, Named]:
        """Make a step of the optimiser; return losses and representations by name.

        The name is "" for the objective, and the term's name for a term.
        """
        mixed = self.dtype is not torch.float32
        with torch.autocast(self.device.type, self.dtype) if mixed else nullcontext():
            forward = self.learner.step(batch)
            if not isinstance(forward, Forward):
                raise _wrong_result(self.learner, forward)
            more = {name: term(batch, forward) for name, term in self._terms.items()}
        losses, passes = dict(forward.losses), {"": forward}
        for name, found in more.items():
            if isinstance(found, Forward):
                passes[name] = found
                losses |= found.losses
            else:
                losses[name] = found
        self._update(_sum([*losses.values()]), lr, forward.counts)
        return losses, {k: f.h if f.z is None else f.z for k, f in passes.items()}

    def _update(self, loss: Tensor, lr: float, counts: Tensor | None) -> None:
        self.optimiser.clear()
        self.scale.scaled(loss).backward()
        gradients = self.optimiser.gradients()[1]
        self.optimiser.step(lr, self.scale.usable(gradients, counts))
        if hasattr(self.learner, "after_step"):
            self.learner.after_step()

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """The state to save: tensors and numbers."""
        learner, slots = self.learner.state_dict(), self.optimiser.state
        tensors = {f"learner.{k}": v for k, v in learner.items()}
        tensors |= {f"optimiser.{k}": v for k, v in slots.items()}
        return tensors, {
            "optimiser_steps": int(self.optimiser.steps),
            "scale": float(self.scale.scale),
            "good_steps": int(self.scale.good_steps),
        }

    def copied(self) -> Callable[[], None]:
        """Copy the state that `load` changes; return a function to restore the copy."""
        buffers = [(one, dict(one._buffers)) for one in self.learner.modules()]
        tensors = {k: v.clone() for k, v in self.learner.state_dict().items()}

        def put_back() -> None:
            for one, own in buffers:
                one._buffers.clear()
                one._buffers.update(own)
            self.learner.load_state_dict(tensors)
            self.scale = LossScale(self.dtype is torch.float16, self.device)
            self.enter(0)

        return put_back

    def load(self, tensors: dict[str, Tensor], values: dict[str, Any]) -> None:
        """Restore a result of `state`."""
        state = below("learner.", tensors)
        _make_buffers(self.learner, state)
        self.learner.load_state_dict(state)
        self.optimiser.load(below("optimiser.", tensors), values["optimiser_steps"])
        self.scale.load(values["scale"], values["good_steps"])


def _sum(losses: list[Tensor]) -> Tensor:
    """Sum of the losses in float32; a single loss needs no operation."""
    wide = [loss.float() for loss in losses]
    return wide[0] if len(wide) == 1 else torch.stack(wide).sum()


def _trains(name: str, parts: tuple[str, ...] | None) -> bool:
    """Return whether a phase of these parts trains a tensor or module of a learner."""
    return parts is None or not _part_of(name) or within(_part_of(name), parts)


def _part_of(name: str) -> str:
    """The model's part for a tensor or module of a learner."""
    words = name.split(".")
    while words and words[0] in _HOLDERS:
        words = words[1:]
    return part_of(".".join(words)) if words else ""


def _make_buffers(learner: nn.Module, state: dict[str, Tensor]) -> None:
    """Allocate buffers of an earlier `begin_epoch`, with the saved shapes."""
    own = learner.state_dict()
    for name, tensor in state.items():
        if name not in own or own[name].shape != tensor.shape:
            owner, _, buffer = name.rpartition(".")
            device = next(learner.parameters()).device
            empty = torch.empty_like(tensor, device=device)
            learner.get_submodule(owner).register_buffer(buffer, empty)


def _optimiser(weights: dict[str, Tensor], plan: Plan) -> Optimiser:
    factors = [plan.factor_of(_part_of(name)) for name in weights]
    if plan.optimiser == "adam":
        return Adam([*weights.values()], plan.weight_decay, factors)
    return SGD([*weights.values()], plan.weight_decay, plan.momentum, factors)


def positions(
    images: Images, batch_size: int, purpose: Purpose, step: int
) -> Positions:
    """Images of a step, counted from 0; every epoch has a new order."""
    epoch, place = divmod(step, steps_per_epoch(len(images), batch_size))
    order = images.order(derive(*purpose, "order", epoch))
    return order.part(place * batch_size, (place + 1) * batch_size)


def _resume(trainer: Trainer, keeper: Keeper, job: Job) -> _State:
    found = keeper.restore()
    if found is None:
        return _State()
    put_back = trainer.copied()
    try:
        return _restored(trainer, job, *found)
    # The file may be forged or from another program, so any error is possible.
    except Exception as error:
        put_back()
        keeper.refuse(error)
        return _State()


def _restored(
    trainer: Trainer, job: Job, step: int, tensors: Named, values: dict[str, Any]
) -> _State:
    if type(step) is not int or not 0 <= step <= job.steps:
        raise ValueError(f"it is at step {step} of {job.steps}")
    # The saved optimiser belongs to the last step's phase; a new phase may begin next.
    trainer.enter(trainer.plan.phase_at(max(step - 1, 0) // job.epoch_steps))
    trainer.load(tensors, values)
    sums = {k: v.to(trainer.device) for k, v in below("sum.", tensors).items()}
    clock = {name: float(values.get(name, 0.0)) for name in _CLOCK}
    return _State(step, sums, **clock)


def _keep(trainer: Trainer, keeper: Keeper, state: _State, finished: bool) -> None:
    if keeper.due(finished) or signals.requested():
        tensors, values = trainer.state()
        tensors |= {f"sum.{name}": value for name, value in state.sums.items()}
        clock = {name: getattr(state, name) for name in _CLOCK}
        keeper.save(state.step, tensors, {**values, **clock})
        signals.stop()


def _finish_epoch(
    state: _State, compared: dict[str, Tensor], lr: float, job: Job, batch_size: int
) -> Epoch:
    steps = job.epoch_steps
    epoch, taken = -(-state.step // steps), (state.step - 1) % steps + 1
    losses = {name: float(value) / taken for name, value in state.sums.items()}
    for name, value in losses.items():
        if not math.isfinite(value):
            raise DivergedError(f"the loss {name} became {value} in epoch {epoch}")
    rows = {name: z.detach().float() for name, z in compared.items()}
    meters = {name: Meter(spread(z), effective_rank(z)) for name, z in rows.items()}
    own = meters.pop("")
    terms = {name: meter._asdict() for name, meter in meters.items()} or None
    seconds = max(state.seconds, 1e-9)
    rate, share = taken * batch_size / seconds, min(state.input_seconds / seconds, 1.0)
    clock = {"step_seconds": seconds / taken, "input_share": share}
    clock["cpu_seconds"] = state.cpu_seconds
    clock |= _peak_memory(next(iter(compared.values())).device)
    state.sums, state.seconds, state.input_seconds, state.cpu_seconds = (
        {},
        0.0,
        0.0,
        0.0,
    )
    more = quality(compared[""], job.pairs)
    where = (epoch, state.step, losses, lr)
    return Epoch(*where, *own, rate, terms=terms, clock=clock, quality=more)


def _peak_memory(device: torch.device) -> dict[str, float]:
    """Peak memory of this process's tensors on a GPU, in bytes."""
    measure = None
    if device.type != "cpu":
        measure = getattr(torch.get_device_module(device), "max_memory_allocated", None)
    return {"peak_memory": measure(device)} if measure else {}


def _wait_for(device: torch.device) -> float:
    """Wait until the GPU has finished, before reading the clock; return the seconds."""
    began = time.perf_counter()
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()
    return time.perf_counter() - began


def _check_finite(module: nn.Module) -> None:
    """Raise if weights diverged; the last loss was computed before the last update."""
    state = {k: v for k, v in module.state_dict().items() if v.is_floating_point()}
    # A sum with a NaN or infinity is not finite. A sum may also overflow, hence the loop.
    sums = torch.stack([tensor.sum().float() for tensor in state.values()])
    if sums.isfinite().all():
        return
    for name, tensor in state.items():
        if not torch.isfinite(tensor).all():
            raise DivergedError(f"{name} became NaN or infinite in the last steps")
