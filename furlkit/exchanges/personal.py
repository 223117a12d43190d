"""The personal model of a client, besides the copy of the global model."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from furlkit import catalogue
from furlkit.exchanges.exchange import Client, Exchange, Kept, Setup, Trained
from furlkit.exchanges.usage import Values
from furlkit.training.learners import parts_by_name
from furlkit.training.loop import Job
from furlkit.training.personal import Afterwards, together
from furlkit.training.run import Jobs
from furlkit.weights import OWN, Tensors, below


class PersonalModel(Exchange):
    """The personal model; tensors and memory stay in the private file."""

    memory = tuple(catalogue.PERSONAL)

    def __init__(self, values: Values) -> None:
        self._method = catalogue.PERSONAL[values["personal"]]
        self.active = self._method.name != "none"
        self._settings, _ = catalogue.divided(values, self._method.options)
        self._sends_own = self._settings.pop("sent_model", "copy") == "own"

    def open(self, setup: Setup) -> None:
        self._expected = setup.learner

    def own_tensors(self, setup: Setup) -> dict[str, Tensor]:
        return {OWN + name: tensor for name, tensor in setup.learner.items()}

    def jobs(
        self, client: Client, job: Job, twin: Callable[[Tensors], Job]
    ) -> Job | Jobs:
        """Train both models together, or the personal model afterwards."""
        kept = below(OWN, client.private.tensors) if client.private else {}
        own = twin({**client.received, **kept})
        method, settings = self._method, self._settings
        self._own: Any = own.learner
        self._jobs: Job | Afterwards
        if method.together:
            self._jobs = together(method, job, own, client.memory, settings)
        else:
            self._jobs = Afterwards(method, job, own, client.received, settings)
        return self._jobs

    def finish(self, client: Client, trained: Trained) -> Kept:
        memory = {}
        if isinstance(self._jobs, Job):
            memory = self._jobs.learner.memory()
        else:
            trained.last = self._jobs.epochs[int(self._sends_own)]
        trained.losses = _losses_of_sent(trained.last.losses, self._sends_own)
        if self._sends_own:
            trained.sent = self._own
        tensors = parts_by_name(self._own)
        parts = {OWN + k: v for k, v in tensors.items() if k in self._expected}
        return Kept(parts, {name: np.array(value) for name, value in memory.items()})


def _losses_of_sent(losses: dict[str, float], sends_own: bool) -> dict[str, float]:
    """Losses of the sent model; an epoch of APFL has the losses of both models."""
    own = {name: loss for name, loss in losses.items() if name.startswith(OWN)}
    if own and sends_own:
        return own
    return {name: loss for name, loss in losses.items() if name not in own}
