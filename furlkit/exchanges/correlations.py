"""Correlation matrices of z: a client shares R_k, and receives the mean of all clients.

FedSC's clients compute R_k by the global model before they train, and wait for the mean.
Here a client computes R_k by its trained model, of images without augmentation, at the
end of the round: a round has a single exchange of files. R_k stays in the private file
too, because a client subtracts R_k from the mean in the next round.
"""

from typing import Any

import numpy as np
import torch

from furlkit.aggregators.correlations import without_own
from furlkit.errors import InputError
from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Kept,
    Setup,
    Trained,
    protected_purpose,
)
from furlkit.exchanges.usage import Values, secret_pattern
from furlkit.files.declared import Shared, SharedFacts, read_shared, write_result
from furlkit.inputs.paths import fill
from furlkit.models.architecture import Net
from furlkit.models.description import z_width
from furlkit.models.embedding import embed
from furlkit.objectives.spectral import bounded, correlations
from furlkit.randomness import array_digest, numpy_generator
from furlkit.training.loop import Purpose

KIND = "correlations"
OWN = "correlations"  # R_k in the memory of a private file.


class Correlations(Exchange):
    """Pass R_others to the loss; write R_k, and keep R_k for the next round."""

    memory = (OWN,)

    def __init__(self, values: Values) -> None:
        self._path, self._out = values["correlations"], values["correlations_out"]
        self.active = bool(self._path or self._out)
        self._noise = values["correlations_noise"]
        self._secret = None
        if self.active:
            self._mu = values["norm_bound"]
        if self.active and self._noise:
            self._secret = secret_pattern(values, "--correlations-noise")

    def open(self, setup: Setup) -> None:
        self._setup = setup
        self._mean: Shared | None = None
        if self._path:
            self._mean = read_shared(setup.readable(self._path), KIND)
            _check_mean(self._mean, z_width(setup.model), setup.model.facts.round)

    def start(self, client: Client) -> None:
        mean = self._mean
        self._others = self._without_own(client, mean) if mean else None

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        if self._others is None:
            return {}
        return {"R_others": torch.from_numpy(self._others).to(self._setup.device)}

    def finish(self, client: Client, trained: Trained) -> Kept:
        if not self._out:
            return Kept({}, {k: v for k, v in client.memory.items() if k == OWN})
        setup, net, run = self._setup, trained.learner.net, self._setup.model.facts.run
        z = embed(net, setup.images.images, client.index, setup.plain_view(), "z")
        R = correlations(bounded(z, self._mu)).numpy()
        R = self._with_noise(R, client)
        facts = SharedFacts(setup.round, client.number, parent=setup.parent, run=run)
        path, about = fill(self._out, client.number), (facts, client.provenance)
        content = write_result(path, KIND, {"R": R}, *about)
        trained.results["own_correlations"] = content
        return Kept({}, {OWN: R})

    def _with_noise(self, R: np.ndarray, client: Client) -> np.ndarray:
        """Add --correlations-noise; another R or sigma gets other noise."""
        sigma = self._noise
        if not sigma:
            return R
        purpose = (*self._purpose(client), repr(sigma), array_digest(R))
        return R + sigma * _symmetric_noise(len(R), purpose)

    def _purpose(self, client: Client) -> Purpose:
        if self._secret is None:
            return (*client.purpose, "noise")
        return protected_purpose(self._setup, client, self._secret, "noise")

    def _without_own(self, client: Client, mean: Shared) -> np.ndarray | None:
        """The mean of the other clients; None if the mean has no other client."""
        R = mean.tensors["R"]
        shared = client.private and client.private.facts.round == mean.facts.round
        if not shared or OWN not in client.memory:
            return R
        K, R_k = mean.facts.clients or 1, client.memory[OWN]
        if R_k.shape != R.shape:
            raise InputError(
                f"{mean.path}: R is {R.shape}, the client's R_k in --private is "
                f"{R_k.shape}; give files of one run"
            )
        return without_own(R, R_k, K) if K > 1 else None


def _check_mean(mean: Shared, width: int, round_: int) -> None:
    """Check that a mean fits a model with z of `width` numbers after `round_` rounds."""
    if mean.facts.clients is None:
        raise InputError(
            f"{mean.path}: is of client {mean.facts.client}; give the mean of aggregate "
            "--rule correlations"
        )
    if (d := mean.sizes["d"]) != width:
        raise InputError(
            f"{mean.path}: R is {d} x {d}, the model's z has {width} numbers; use "
            "the correlations of this model"
        )
    if mean.facts.round > round_:
        raise InputError(
            f"{mean.path}: is of round {mean.facts.round}, the model of round {round_}; "
            "use the correlations of the model's round"
        )


def _symmetric_noise(d: int, purpose: Purpose) -> np.ndarray:
    """Standard Gaussian numbers (d, d), equal above and below the diagonal."""
    noise = numpy_generator(*purpose).standard_normal((d, d)).astype(np.float32)
    return np.tril(noise) + np.tril(noise, -1).T
