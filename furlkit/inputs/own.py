"""A client's model: the global model plus the client's private tensors."""

from dataclasses import replace
from typing import Any

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.private import Private
from furlkit.inputs.clients import ClientFiles
from furlkit.models.architecture import build
from furlkit.models.description import full_architecture
from furlkit.models.loading import check_tensors
from furlkit.personal.apfl import ALPHA
from furlkit.weights import OWN, Tensors, below, mixed, parts_of


def client_model(files: ClientFiles, received: Checkpoint) -> Checkpoint:
    """Return a client's model, from the upload or else from the received model."""
    start = files.upload or received
    return own_model(start, files.private) if files.private else start


def own_model(model: Checkpoint, private: Private) -> Checkpoint:
    """Build a client's checkpoint from the global model and the private file.

    Tensors that the client sends come from the global model; tensors that the client
    keeps (FedPer), or the server drops (BatchNorm statistics), from the private file.
    With Ditto, APFL or --update own, every tensor comes from the private file (APFL
    then mixes the private and the global model).
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
    """APFL's alpha v + (1 - alpha) w; v without an alpha."""
    if ALPHA not in private.memory:
        return v
    alpha = float(private.memory[ALPHA])
    if not 0 <= alpha <= 1:
        raise InputError(f"{private.path}: {ALPHA} is {alpha:g}, expected 0 to 1")
    return {**v, **mixed(v, w, alpha)}


def _check_round(model: Checkpoint, private: Private) -> None:
    if private.facts.round > model.facts.round:
        raise InputError(
            f"{private.path}: is of round {private.facts.round}, {model.path} of round "
            f"{model.facts.round}; give a model and private files of one round"
        )
