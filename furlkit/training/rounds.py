"""Finetuning an encoder with a classifier: supervised FedAvg in one process.

Central training is a single round of a client with all images. Repeats are possible.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from furlkit.aggregators.mean import shares_of
from furlkit.data.batches import Images, View
from furlkit.models.architecture import Net
from furlkit.models.loading import load_tensors, tensors_of
from furlkit.objectives import supervised
from furlkit.objectives.learner import Stateless
from furlkit.training import loop
from furlkit.training.plan import Plan
from furlkit.weights import Tensors, add_weighted, below, narrowed


@dataclass
class Finetuning:
    """Every client trains from the round's model, with a new optimiser in each round.

    `parts`: positions of each client's labelled images; models are averaged by their
    number. `weights`: model at the start of the round; `total`: weighted float64 sum of
    the models of the clients so far; `losses`: last losses of these clients. See
    `run.Jobs`.
    """

    net: Net
    images: np.ndarray
    labels: np.ndarray
    view: View
    parts: dict[int, np.ndarray]
    plan: Plan
    rounds: int
    purpose: loop.Purpose
    weights: Tensors = field(default_factory=dict)
    total: Tensors = field(default_factory=dict)
    losses: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        # A net on the CPU shares memory with the arrays.
        self.weights = {k: v.copy() for k, v in tensors_of(self.net).items()}

    @property
    def turns(self) -> int:
        """Number of trainings of clients in total."""
        return self.rounds * len(self.parts)

    @property
    def shares(self) -> list[float]:
        """Weight of each client's model: the share of the labelled images."""
        return shares_of([len(index) for index in self.parts.values()])

    @property
    def loss(self) -> float:
        """Mean loss of the last epochs of the last round."""
        return sum(n * loss for n, loss in zip(self.shares, self.losses, strict=True))

    def job(self, turn: int) -> loop.Job:
        """Training of one client in one round, from the round's model."""
        round_, place = divmod(turn, len(self.parts))
        client, index = list(self.parts.items())[place]
        load_tensors(self.net, self.weights)
        title = f"round {round_ + 1}/{self.rounds} client {client}"
        device = next(self.net.parameters()).device
        return loop.Job(
            title="finetuning" if self.turns == 1 else title,
            learner=Stateless(self.net, supervised.step),
            images=Images(self.images, self.labels, index, self.view, device),
            plan=replace(self.plan, first_round=round_),
            purpose=(*self.purpose, round_, client),
            where={"round": round_ + 1, "client": client},
            steps_before=self._steps_before(round_, place),
        )

    def finish(self, turn: int, last: loop.Epoch) -> None:
        """Add a client's model; the last client of a round completes the next model."""
        place, tensors = turn % len(self.parts), tensors_of(self.net)
        self.total = add_weighted(self.total, tensors, self.shares[place])
        loss = sum(last.losses.values())
        self.losses = (*(self.losses if place else ()), loss)
        if place == len(self.parts) - 1:
            self.weights, self.total = narrowed(self.total, tensors), {}

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """The round's model, the sum so far, and the clients' losses."""
        weights = {f"weights.{k}": v for k, v in self.weights.items()}
        total = {f"total.{k}": v for k, v in self.total.items()}
        return {**weights, **total}, {"losses": list(self.losses)}

    def load(self, tensors: Tensors, values: dict[str, Any]) -> None:
        """Restore a saved `state`."""
        self.weights, self.total = below("weights.", tensors), below("total.", tensors)
        self.losses = tuple(values["losses"])

    @property
    def steps(self) -> int:
        """Number of steps of all clients."""
        return self._steps_before(self.rounds, 0)

    def _steps_before(self, round_: int, place: int) -> int:
        size, epochs = self.plan.batch_size, self.plan.epochs
        sizes = map(len, self.parts.values())
        each = [loop.steps_per_epoch(count, size) * epochs for count in sizes]
        return round_ * sum(each) + sum(each[:place])


@dataclass
class Repeats:
    """Repeated finetuning; `make` creates a finetuning by number.

    `predict` returns the classes of the test images by a finished finetuning.
    `predictions` and `losses` hold the results of all repeats but the last. See
    `run.Jobs`.
    """

    make: Callable[[int], Finetuning]
    predict: Callable[[Finetuning], np.ndarray]
    repeats: int
    predictions: list[np.ndarray] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.current = self.make(0)

    @property
    def turns(self) -> int:
        """Number of trainings of clients in total."""
        return self.repeats * self.current.turns

    def job(self, turn: int) -> loop.Job:
        """Training of a client in a round of a repeat."""
        repeat, own = divmod(turn, self.current.turns)
        job = self.current.job(own)
        if self.repeats == 1:
            return job
        return replace(
            job,
            title=f"repeat {repeat + 1}/{self.repeats} {job.title}",
            where={"repeat": repeat + 1, **job.where},
            steps_before=job.steps_before + repeat * self.current.steps,
        )

    def finish(self, turn: int, last: loop.Epoch) -> None:
        """Record the end of a client; after the last client start the next repeat."""
        repeat, own = divmod(turn, self.current.turns)
        self.current.finish(own, last)
        if own == self.current.turns - 1 and repeat < self.repeats - 1:
            self.predictions.append(self.predict(self.current))
            self.losses.append(self.current.loss)
            self.current = self.make(repeat + 1)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """State of the current repeat, and results of the finished repeats."""
        tensors, values = self.current.state()
        given = {f"predictions.{n}": each for n, each in enumerate(self.predictions)}
        return {**tensors, **given}, {**values, "repeats": self.losses}

    def load(self, tensors: Tensors, values: dict[str, Any]) -> None:
        """Restore a saved `state`."""
        self.losses = list(values["repeats"])
        finished = len(self.losses)
        self.predictions = [tensors[f"predictions.{n}"] for n in range(finished)]
        self.current = self.make(finished)
        self.current.load(tensors, values)

    def results(self) -> tuple[list[np.ndarray], list[float]]:
        """Predictions and loss of each repeat, after the last repeat."""
        last = self.predict(self.current)
        return [*self.predictions, last], [*self.losses, self.current.loss]
