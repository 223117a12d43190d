"""FedStyle: a client's style model and generator G, which stay in the private file.

The style model is frozen, and images are not augmented, so h_s of every image is computed
once before training.
"""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from furlkit.errors import InputError
from furlkit.exchanges.exchange import (
    Client,
    Exchange,
    Setup,
)
from furlkit.exchanges.usage import Values, is_asked_for
from furlkit.files.checkpoint import Checkpoint
from furlkit.files.clients import ClientId
from furlkit.files.private import Private
from furlkit.models.architecture import Net, build, drawn
from furlkit.models.description import Architecture, full_architecture
from furlkit.models.embedding import embed
from furlkit.models.loading import check_tensors, tensors_of
from furlkit.models.style import PREFIX, empty_generator, style_architecture, style_net
from furlkit.randomness import torch_generator
from furlkit.weights import STYLE, Tensors, below, parts_of

GENERATOR = "generator"


class Style(Exchange):
    """h_s of the client's images, and of the Sobel images, for the infusion term.

    A client also keeps the style in rounds without infusion.
    """

    carried = STYLE
    trains = (GENERATOR,)

    def __init__(self, values: Values) -> None:
        self.active = is_asked_for("style", values)

    def open(self, setup: Setup) -> None:
        self._setup = setup

    def extend(self, learner: Any, architecture: Architecture) -> None:
        generator = empty_generator(architecture.feature_dim)
        device = next(learner.parameters()).device
        add_generator(learner, generator.to_empty(device=device))

    def new_parts(self, client: ClientId, start: Tensors) -> Tensors:
        if GENERATOR in parts_of(start):
            return {}
        rng = torch_generator(self._setup.seed, GENERATOR, client)
        h_dim = self._setup.architecture.feature_dim
        new = tensors_of(drawn(empty_generator(h_dim), rng))
        return {f"{GENERATOR}.{name}": array for name, array in new.items()}

    def start(self, client: Client) -> None:
        if client.private is not None:
            self._encoder = style_encoder(client.private, self._setup.model)

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        setup = self._setup
        style = style_net(setup.model, self._encoder, setup.device)
        images, view = setup.images.images, setup.plain_view()
        plain, edges = (
            embed(style, images, client.index, view, "h", edges=e).to(setup.device)
            for e in (False, True)
        )
        return {"styles": (plain, edges)}


def add_generator(learner: Any, generator: nn.Module) -> None:
    """Add a generator to a learner, to train with the net."""
    learner.generator = generator
    if hasattr(learner, "keep_infused"):
        learner.keep_infused()


def style_encoder(private: Private, model: Checkpoint) -> Tensors:
    """f_s, the encoder of the style model; must have the architecture of the model."""
    expected = build(style_architecture(model), None).state_dict()
    cure = "run pretrain-style, and train with the private file of pretrain-style"
    missing = ("style model", cure)
    return _part(private, PREFIX, "encoder.", expected, missing, model.path)


def generator(private: Private, model: Checkpoint) -> Tensors:
    """G; must match the width of the model's h."""
    h_dim = full_architecture(model.path, model.facts).feature_dim
    expected = empty_generator(h_dim).state_dict()
    cure = "give a private file that local-train --infusion wrote"
    return _part(private, "generator.", "", expected, ("generator", cure), model.path)


def _part(
    private: Private,
    prefix: str,
    part: str,
    expected: dict[str, torch.Tensor],
    missing: tuple[str, str],
    model: Path,
) -> Tensors:
    """Tensors of a private file below a prefix; raise for missing or wrong shapes."""
    what, cure = missing
    wanted = {prefix + name: tensor for name, tensor in expected.items()}
    found = {k: v for k, v in private.tensors.items() if k.startswith(prefix + part)}
    if not found:
        raise InputError(f"{private.path}: has no {what}; {cure}")
    check_tensors(private.path, wanted, found, f"what fits {model}")
    if lacking := sorted(wanted.keys() - found.keys()):
        raise InputError(f"{private.path}: lacks {lacking[0]} of the {what}")
    return below(prefix, found)
