"""The personal model of a client, besides the copy of the global model."""

from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from furlkit import catalogue
from furlkit.errors import UsageError
from furlkit.exchanges.exchange import Client, Exchange, Kept, Setup, Trained, Values
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
        if self.active:
            _check(values)

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


def _check(values: Values) -> None:
    flag, objective = f"--personal {values['personal']}", values["objective"]
    entry = catalogue.objectives()[objective]
    if not values["private_out"]:
        raise UsageError(
            f"{flag}: the personal model stays in a private file; give --private-out"
        )
    if catalogue.updates()[values["update"]].starts_from_own:
        raise UsageError(
            f"{flag}: needs the global model, but with --update {values['update']} the "
            "client starts from the client's model; omit either"
        )
    if values.get("mix") == "weights" and not entry.mixes:
        raise UsageError(
            f"--mix weights does not apply to --objective {objective}, which constrains "
            "weights; a mixture would violate the constraint; use --mix views"
        )
    if values.get("mix") == "views" and "projector" not in entry.head_names:
        raise UsageError(
            f"--mix views does not apply to --objective {objective}, which has no z "
            "of two views; use --mix weights"
        )
    if values.get("own_share_rate") and values["precision"] == "float16":
        raise UsageError(
            "--own-share-rate: --precision float16 scales the loss and alpha's gradient; "
            "use bfloat16"
        )
