"""A model that a client trains for itself, beside the copy of the global model."""

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
    """The client's own model: its tensors and its memory stay in the private file."""

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
        """Both models together, or the own model afterwards; it continues or starts."""
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
    """The losses of the model that is sent; APFL's epoch has those of both models."""
    own = {name: loss for name, loss in losses.items() if name.startswith(OWN)}
    if own and sends_own:
        return own
    return {name: loss for name, loss in losses.items() if name not in own}


def _check(values: Values) -> None:
    flag, objective = f"--personal {values['personal']}", values["objective"]
    entry = catalogue.objectives()[objective]
    if not values["private_out"]:
        raise UsageError(
            f"{flag}: a client keeps its own model in a private file; give --private-out"
        )
    if catalogue.updates()[values["update"]].starts_from_own:
        raise UsageError(
            f"{flag}: is about the global model, and with --update {values['update']} "
            "a client is not given one; leave one of them out"
        )
    if values.get("mix") == "weights" and not entry.mixes:
        raise UsageError(
            f"--mix weights does not apply to --objective {objective}, which sets "
            "weights itself that a mixture would not have; use --mix views"
        )
    if values.get("mix") == "views" and "projector" not in entry.head_names:
        raise UsageError(
            f"--mix views does not apply to --objective {objective}, which has no z "
            "of two views; use --mix weights"
        )
    if values.get("own_share_rate") and values["precision"] == "float16":
        raise UsageError(
            "--own-share-rate: the loss of --precision float16 is scaled, and alpha's "
            "gradient with it; use bfloat16"
        )
