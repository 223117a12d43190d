"""Training of personal models, together with the global model's copy or afterwards."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from torch import Tensor

from furlkit import catalogue
from furlkit.models.loading import load_tensors, tensors_of
from furlkit.terms.proximal import weights_like
from furlkit.training import loop
from furlkit.training.run import warn_of_collapse
from furlkit.weights import Tensors, below


def together(
    method: catalogue.Personal,
    copy: loop.Job,
    own: loop.Job,
    memory: Mapping[str, np.ndarray],
    settings: dict[str, Any],
) -> loop.Job:
    """One training of both models."""
    make = catalogue.load(method.function)
    learner = make(copy.learner, own.learner, own.terms, memory, **settings)
    return replace(copy, learner=learner)


@dataclass
class Afterwards:
    """Train the copy of the global model first, then the personal model.

    The personal model has an additional term. Both trainings use equal random numbers.
    `received`: received model; `epochs`: last epochs of finished trainings. See
    `run.Jobs`.
    """

    method: catalogue.Personal
    copy: loop.Job
    own: loop.Job
    received: Tensors
    settings: dict[str, Any]
    epochs: list[loop.Epoch] = field(default_factory=list)

    turns = 2

    def __post_init__(self) -> None:
        title = f"{self.own.title}, its own model"
        where, before = {"own": 1}, self.copy.steps
        self.own = replace(self.own, title=title, where=where, steps_before=before)
        # Buffers created by begin_epoch belong to the epoch.
        self._kept = [job.learner.state_dict().keys() for job in self._jobs]

    @property
    def _jobs(self) -> tuple[loop.Job, loop.Job]:
        return self.copy, self.own

    def job(self, turn: int) -> loop.Job:
        """Training of one of the two models."""
        if turn == 0:
            return self.copy
        term = catalogue.load(self.method.function)
        added = term(self.own.learner.net, self._weights(), **self.settings)
        more = {self.method.name: added} if added else {}
        return replace(self.own, terms={**self.own.terms, **more})

    def _weights(self) -> dict[str, dict[str, Tensor]]:
        net = self.copy.learner.net
        names = [name for name, _ in net.named_parameters()]
        received = weights_like(net, self.received)
        return {
            "received": dict(zip(names, received, strict=True)),
            "trained": dict(net.named_parameters()),
        }

    def finish(self, turn: int, last: loop.Epoch) -> None:
        """Record the end of a training."""
        warn_of_collapse(self._jobs[turn].title, last)
        self.epochs.append(last)

    def state(self) -> tuple[Tensors, dict[str, Any]]:
        """Trained models, and their last epochs."""
        tensors = {
            f"{turn}.{name}": array
            for turn in range(len(self.epochs))
            for name, array in tensors_of(self._jobs[turn].learner).items()
            if name in self._kept[turn]
        }
        return tensors, {"epochs": [epoch._asdict() for epoch in self.epochs]}

    def load(self, tensors: Tensors, values: dict[str, Any]) -> None:
        """Restore a saved `state`."""
        self.epochs = [loop.Epoch(**epoch) for epoch in values["epochs"]]
        for turn in range(len(self.epochs)):
            load_tensors(self._jobs[turn].learner, below(f"{turn}.", tensors))
