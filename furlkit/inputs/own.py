"""The model that a client uses: the global one, and what the client keeps for itself."""

from dataclasses import replace
from typing import Any

import numpy as np

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.private import Private
from furlkit.models.architecture import build
from furlkit.models.loading import check_tensors, full_architecture
from furlkit.personal.apfl import ALPHA
from furlkit.weights import OWN, Tensors, below, parts_of, weighted_sum


def own_model(model: Checkpoint, private: Private) -> Checkpoint:
    """A client's own model as a checkpoint, from the global model and its private file.

    What it sends is the global model's; what it does not send (FedPer), or the server
    leaves out (BatchNorm statistics), is its own. All of it is its own where it trains a
    model for itself (Ditto), which APFL mixes with the global one, and where it starts
    its rounds from its own (--update own).
    """
    _check_round(model, private)
    expected = build(full_architecture(model.path, model.facts), None).state_dict()
    kept, shared = _only(expected, private.tensors), _only(expected, model.tensors)
    own = below(OWN, private.tensors)
    if private.options.get("update") == "own":
        own = own or below("last.", private.tensors)
    own = _only(expected, own)
    for found in (kept, own):
        check_tensors(private.path, expected, found, str(model.path))
    tensors = {**kept, **shared}
    tensors |= _mixed(own, tensors, private)
    facts = replace(
        model.facts, role="client", client=private.facts.client, statistics=True,
        parts=parts_of(tensors),
    )  # fmt: skip
    return replace(model, facts=facts, tensors=tensors)


def _only(expected: dict[str, Any], tensors: Tensors) -> Tensors:
    return {name: array for name, array in tensors.items() if name in expected}


def _mixed(v: Tensors, w: Tensors, private: Private) -> Tensors:
    """APFL's alpha v + (1 - alpha) w; without an alpha the own model is v alone."""
    if ALPHA not in private.memory:
        return v
    alpha = float(private.memory[ALPHA])
    if not 0 <= alpha <= 1:
        raise InputError(f"{private.path}: its {ALPHA} is {alpha:g}, expected 0 to 1")
    shares = [alpha, 1 - alpha]
    pairs = {name: [array, w.get(name, array)] for name, array in v.items()}
    return {k: np.asarray(weighted_sum(pair, shares)) for k, pair in pairs.items()}


def _check_round(model: Checkpoint, private: Private) -> None:
    if private.facts.round > model.facts.round:
        raise InputError(
            f"{private.path}: is of round {private.facts.round}, {model.path} of round "
            f"{model.facts.round}; give a model and private files of one round"
        )
