"""SCAFFOLD's control variates: c arrives with the model, c_k+ - c_k leaves the client.

Tensors control.NAME, for each parameter NAME of the net:

    in the global model     c, the server's control variate; absent before round 1: 0
    in an upload            c_k+ - c_k, the change of the client's control variate
    in a private file       c_k+, in the file's memory; 0 before the client's first round

aggregate --rule scaffold adds the changes to c (Algorithm 1, line 17).
"""

from typing import Any

import numpy as np
import torch
from torch import nn

from furlkit.errors import InputError
from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Kept,
    Setup,
    Trained,
)
from furlkit.exchanges.usage import Values, is_asked_for
from furlkit.files.clients import ClientId
from furlkit.models.architecture import Net
from furlkit.models.description import Architecture
from furlkit.models.loading import load_tensors, tensors_of
from furlkit.terms.scaffold import next_control
from furlkit.training.loop import steps_per_epoch
from furlkit.weights import Tensors, below, part_of

CONTROL = "control."  # Before the names of parameters, in models and in memory.


class Control(Exchange):
    """Add c to the learner, and pass c - c_k to the term."""

    sends = ("control",)
    memory = ("control",)

    def __init__(self, values: Values) -> None:
        self.active = is_asked_for("control", values)

    def open(self, setup: Setup) -> None:
        self._setup = setup
        self._names = [k for k in setup.learner if k.startswith(CONTROL)]

    def extend(self, learner: Any, architecture: Architecture) -> None:
        learner.control = zeros_like_parameters(learner.net)

    def new_parts(self, client: ClientId, start: Tensors) -> Tensors:
        """c is 0 before round 1."""
        missing = [name for name in self._names if name not in start]
        return {k: np.zeros(self._setup.learner[k].shape, np.float32) for k in missing}

    def start(self, client: Client) -> None:
        self._c = below(CONTROL, {k: client.tensors[k] for k in self._names})
        kept = below(CONTROL, client.memory)
        self._c_k = {k: kept.get(k, np.zeros_like(c)) for k, c in self._c.items()}
        for name, c in self._c.items():
            if client.private and self._c_k[name].shape != c.shape:
                raise InputError(
                    f"{client.private.path}: the control variate of {name} is "
                    f"{self._c_k[name].shape}, expected {c.shape}; was the file kept for "
                    "another model?"
                )

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        return {"correction": {k: c - self._c_k[k] for k, c in self._c.items()}}

    def finish(self, client: Client, trained: Trained) -> Kept:
        plan, end = self._setup.plan, tensors_of(trained.learner.net)
        steps = steps_per_epoch(len(client.index), plan.batch_size)
        rates = sum(plan.lr_at(k, steps) for k in range(steps * plan.epochs))
        new = {}
        for name, c in self._c.items():
            path = (client.tensors[name], end[name])
            eta = rates * plan.factor_of(part_of(name))
            new[name] = next_control(self._c_k[name], c, *path, eta)
        changes = {CONTROL + k: c_k - self._c_k[k] for k, c_k in new.items()}
        load_tensors(trained.learner, changes)
        return Kept({}, {CONTROL + k: c_k for k, c_k in new.items()})


def zeros_like_parameters(net: nn.Module) -> nn.Module:
    """Module with a buffer of zeros for every parameter of a net, with equal names."""
    root = nn.Module()
    for name, parameter in net.named_parameters():
        *path, last = name.split(".")
        place = root
        for word in path:
            if word not in dict(place.named_children()):
                place.add_module(word, nn.Module())
            place = place.get_submodule(word)
        place.register_buffer(last, torch.zeros_like(parameter, requires_grad=False))
    return root
