"""Training an encoder on, with a classifier on top of it: FedAvg on labelled images.

Central training is one client that holds everything, and a single round.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit import console
from furlkit.aggregators.mean import shares_of
from furlkit.data.batches import Images, View
from furlkit.files.journal import Journal
from furlkit.files.progress import ProgressFile
from furlkit.models.architecture import Net
from furlkit.models.embedding import embed
from furlkit.models.loading import Tensors, tensors_of
from furlkit.objectives import supervised
from furlkit.training import loop
from furlkit.training import run as training
from furlkit.training import signals as stopping
from furlkit.weights import weighted_sum


@dataclass(frozen=True)
class Part:
    """The labelled images of a client, as positions in the dataset."""

    client: int
    index: np.ndarray


@dataclass(frozen=True)
class Job:
    """A finetuning: of what net, on whose labelled images, for how long."""

    net: Net
    images: np.ndarray
    labels: np.ndarray
    view: View
    parts: Sequence[Part]
    plan: loop.Plan
    rounds: int
    purpose: loop.Purpose

    @property
    def turns(self) -> int:
        """How many trainings of a client there are in all."""
        return self.rounds * len(self.parts)

    @property
    def shares(self) -> list[float]:
        """What each client's model counts: its part of the labelled images."""
        return shares_of([len(part.index) for part in self.parts])

    def at(self, turn: int) -> tuple[int, int]:
        """The round, from 0, and the place among the clients."""
        return divmod(turn, len(self.parts))

    def steps_before(self, turn: int) -> int:
        """Steps of all clients before that turn."""
        size, epochs = self.plan.batch_size, self.plan.epochs
        each = [loop.steps_per_epoch(len(p.index), size) * epochs for p in self.parts]
        round_, place = self.at(turn)
        return round_ * sum(each) + sum(each[:place])

    def title(self, turn: int) -> str:
        """What a training is called in the log."""
        if self.turns == 1:
            return "finetuning"
        round_, place = self.at(turn)
        return f"round {round_ + 1}/{self.rounds} client {self.parts[place].client}"


def put_classifier(
    net: Net, inputs: int, hidden: int, classes: int, generator: torch.Generator
) -> Net:
    """Take the heads off a net and give it a new classifier of h.

    Linear, ReLU, Linear; `hidden` of 0 makes it one linear layer. Drawn as PyTorch's
    layers are, but from `generator`.
    """
    last = _drawn_linear(hidden or inputs, classes, generator)
    layers: list[nn.Module] = [last]
    if hidden:
        first = _drawn_linear(inputs, hidden, generator)
        layers = [first, nn.ReLU(inplace=True), last]
    net.projector = net.predictor = net.decoder = net.rotation = None
    head = nn.Sequential(*layers).to(next(net.parameters()).device)
    net.classifier = head  # type: ignore[assignment]
    return net


def _drawn_linear(inputs: int, outputs: int, generator: torch.Generator) -> nn.Linear:
    layer = nn.utils.skip_init(nn.Linear, inputs, outputs)
    bound = inputs**-0.5
    for tensor in (layer.weight, layer.bias):
        nn.init.uniform_(tensor, -bound, bound, generator=generator)
    return layer


def predict(net: Net, images: np.ndarray, view: View) -> Tensor:
    """The class the classifier gives each image, un-augmented; (n) on the CPU."""
    h = embed(net, images, np.arange(len(images)), view, "h")  # (n, d)
    head = net.classifier
    if head is None:
        raise ValueError("the net has no classifier")
    with torch.inference_mode():
        device = next(net.parameters()).device
        return head(h.to(device)).argmax(dim=1).cpu()


def finetune(
    job: Job, file: ProgressFile, journal: Journal, save_every: float
) -> float:
    """Train the net in place; gives the loss of the last round's last epoch.

    Each round every client trains from the round's model, with an optimiser of its
    own, and their models are averaged by the number of labelled images.
    """
    keeper = _Keeper(job, file, journal, save_every)
    while keeper.state.turn < job.turns:
        state = keeper.state
        with stopping.deferring():
            _fill(job.net, state.weights)
            images = _images(job, job.parts[job.at(state.turn)[1]])
        loss = _train(job, images, keeper)
        with stopping.deferring():
            keeper.state = after_turn(job, state, tensors_of(job.net), loss)
        keeper.pause()
    _fill(job.net, keeper.state.weights)
    return sum(
        n * loss for n, loss in zip(job.shares, keeper.state.losses, strict=True)
    )


def _images(job: Job, part: Part) -> Images:
    device = next(job.net.parameters()).device
    return Images(job.images, job.labels, part.index, job.view, device)


def _fill(net: Net, weights: Tensors) -> None:
    net.load_state_dict({k: torch.from_numpy(v) for k, v in weights.items()})


def _train(job: Job, images: Images, keeper: "_Keeper") -> float:
    """One client's training; gives the loss of its last epoch."""
    turn = keeper.state.turn
    round_, place = job.at(turn)
    title, client = job.title(turn), job.parts[place].client
    events = loop.train(
        job.net, partial(supervised.step, job.net), images, job.plan,
        (*job.purpose, round_, client), keeper,
    )  # fmt: skip
    steps = job.steps_before(turn + 1) - job.steps_before(turn)
    with console.bar(title, steps) as bar, training.naming(title):
        for event in events:
            if isinstance(event, int):
                bar.reach(event)
                continue
            keeper.note(event, {"round": round_ + 1, "client": client})
            console.info(
                f"{title} epoch {event.epoch}/{job.plan.epochs} loss {keeper.loss:.4f} "
                f"{event.samples_per_second:.0f} images/s"
            )
    return keeper.loss


@dataclass(frozen=True)
class State:
    """Where the rounds have come to.

    `weights` is the model the round started from, `total` the sum, in float64, of what
    its clients have made of it so far, each times its share, and `losses` their last.
    """

    turn: int
    weights: Tensors
    total: Tensors = field(default_factory=dict)
    losses: tuple[float, ...] = ()


def after_turn(job: Job, state: State, tensors: Tensors, loss: float) -> State:
    """What comes of a client's model; the last client of a round makes the next one."""
    place = job.at(state.turn)[1]
    total = _added(state.total, tensors, job.shares[place])
    losses = (*(state.losses if place else ()), loss)
    if place < len(job.parts) - 1:
        return replace(state, turn=state.turn + 1, total=total, losses=losses)
    weights = {k: v.astype(tensors[k].dtype) for k, v in total.items()}
    return State(state.turn + 1, weights, {}, losses)


def _added(total: Tensors, tensors: Tensors, share: float) -> Tensors:
    """total + share * tensors: the next step of what `weighted_sum` does in one go."""
    added = {}
    for name, array in tensors.items():
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        columns = [total[name], wide] if total else [wide]
        shares = [1.0, share] if total else [share]
        # numpy makes plain numbers of arrays that have no dimension.
        added[name] = np.asarray(weighted_sum(columns, shares))
    return added


class _Keeper:
    """Keeps rounds and the training they are in together, in one file."""

    def __init__(self, job: Job, file: ProgressFile, journal: Journal, every: float):
        self._job, self._file, self._journal, self._every = job, file, journal, every
        self._saved = time.monotonic()
        self._inner: tuple[int, dict[str, Tensor], dict[str, Any]] | None = None
        self.loss = 0.0
        self.state = self._load()

    def _load(self) -> State:
        found, reason = self._file.load()
        if reason:
            console.warn(reason)
        self._journal.rewind(found.step if found else 0)
        if found is None:
            # A net on the CPU shares its memory with the arrays.
            return State(0, {k: v.copy() for k, v in tensors_of(self._job.net).items()})
        values = found.values
        title = self._job.title(min(values["turn"], self._job.turns - 1))
        console.info(f"{title}: carries on after step {found.step}")
        self.loss = values["loss"]
        if values["inner"] is not None:
            inner = _below("inner.", found.tensors)
            tensors = {k: torch.from_numpy(v) for k, v in inner.items()}
            self._inner = values["step"], tensors, values["inner"]
        weights, total = (_below(k, found.tensors) for k in ("weights.", "total."))
        return State(values["turn"], weights, total, tuple(values["losses"]))

    def restore(self) -> tuple[int, dict[str, Tensor], dict[str, Any]] | None:
        """What the training that was interrupted had come to; asked for once."""
        inner, self._inner = self._inner, None
        return inner

    def due(self, finished: bool) -> bool:
        """Whether it is time to save."""
        return time.monotonic() - self._saved >= self._every

    def save(
        self, step: int, tensors: dict[str, Tensor], values: dict[str, Any] | None
    ) -> None:
        """Save the rounds, and the training they are in."""
        state = self.state
        inner = {k: v.detach().cpu().contiguous().numpy() for k, v in tensors.items()}
        parts = {"weights.": state.weights, "total.": state.total, "inner.": inner}
        arrays = {
            f"{name}{k}": v for name, part in parts.items() for k, v in part.items()
        }
        numbers = {"turn": state.turn, "losses": list(state.losses), "step": step}
        self._file.save(
            self._job.steps_before(state.turn) + step, arrays,
            {**numbers, "loss": self.loss, "inner": values},
        )  # fmt: skip
        self._saved = time.monotonic()

    def note(self, epoch: loop.Epoch, where: dict[str, int]) -> None:
        """An epoch is over; the journal counts the steps of all clients."""
        self.loss = sum(epoch.losses.values())
        step = self._job.steps_before(self.state.turn) + epoch.step
        speed = round(epoch.samples_per_second, 1)
        counted = {**asdict(epoch), "step": step, "samples_per_second": speed}
        self._journal.write({"event": "epoch", **where, **counted})

    def pause(self) -> None:
        """Between two clients: as the loop does after a step."""
        if self.due(False) or stopping.requested():
            self.save(0, {}, None)
            stopping.stop()


def _below(prefix: str, tensors: Tensors) -> Tensors:
    return {
        k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)
    }
