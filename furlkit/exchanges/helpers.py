"""FedMatch's helpers: models of other clients near the client's model."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from furlkit.errors import InputError
from furlkit.exchanges.exchange import Client, Exchange, Setup
from furlkit.exchanges.usage import Values, is_asked_for
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.models.architecture import Net
from furlkit.models.description import full_architecture
from furlkit.models.loading import load_net
from furlkit.objectives.fedmatch import nearest_clients
from furlkit.randomness import torch_generator
from furlkit.weights import Tensors, below

SIGMA = "sigma."


class Candidate(NamedTuple):
    """A client's upload, and the model's answer to the common noise."""

    path: Path
    content: str
    answer: np.ndarray


class Helpers(Exchange):
    """Choice of helpers among the uploads of the last round."""

    def __init__(self, values: Values) -> None:
        self._files = values.get("helper_files", ())
        self.active = is_asked_for("helpers", values) and bool(self._files)
        self._count = values.get("helper_count", 0)

    def open(self, setup: Setup) -> None:
        """Check the uploads, and compute the answers of the models."""
        self._setup, model = setup, setup.model
        if not below(SIGMA, model.tensors):
            raise InputError(
                f"{model.path}: has no sigma, which is needed to compare helpers; aggregate "
                "uploads of --objective fedmatch"
            )
        self._candidates: dict[ClientId, Candidate] = {}
        for path in self._files:
            upload = read_checkpoint(setup.readable(path))
            client = _checked(upload, model, self._candidates)
            net = helper_net(upload, model, setup.device)
            answer = _answer(net, model, setup.seed)
            self._candidates[client] = Candidate(path, upload.content, answer)
        self._own = _answer(load_net(model, setup.device), model, setup.seed)

    def start(self, client: Client) -> None:
        """Choose helpers; a client without an upload compares the global model."""
        others = {k: c for k, c in self._candidates.items() if k != client.number}
        mine = self._candidates.get(client.number)
        answers = {k: candidate.answer for k, candidate in others.items()}
        near = nearest_clients(answers, mine.answer if mine else self._own, self._count)
        self._chosen = {k: others[k] for k in sorted(near, key=client_order)}

    def contents(self) -> dict[str, str]:
        return {f"helper {k}": helper.content for k, helper in self._chosen.items()}

    def begin(self, client: Client, net: Net) -> dict[str, Any]:
        if not self._chosen:
            return {}
        model, device = self._setup.model, self._setup.device
        paths = [helper.path for helper in self._chosen.values()]
        files = (read_checkpoint(self._setup.readable(path)) for path in paths)
        return {"helpers": [helper_net(file, model, device) for file in files]}


def helper_net(upload: Checkpoint, model: Checkpoint, device: torch.device) -> Net:
    """Net of a helper: the helper's psi and the server's present sigma."""
    theirs, ours = below(SIGMA, upload.tensors), below(SIGMA, model.tensors)
    restored: Tensors = {
        name: array + (ours[name] - theirs[name]) if name in ours else array
        for name, array in upload.tensors.items()
    }
    net = load_net(replace(upload, tensors=restored), device)
    return net.requires_grad_(False).eval()


def _checked(upload: Checkpoint, model: Checkpoint, found: dict) -> ClientId:
    """Return the client of an upload; raise unless the upload fits the global model."""
    path, facts = upload.path, upload.facts
    if facts.role != "client" or facts.client is None:
        raise InputError(
            f"{path}: is not a client's model; give uploads of local-train"
        )
    if facts.client in found:
        other = found[facts.client].path
        raise InputError(f"{path} and {other}: are both of client {facts.client}")
    if facts.round != model.facts.round:
        raise InputError(
            f"{path}: is of round {facts.round}, {model.path} of round "
            f"{model.facts.round}; helpers are the uploads of the global model's round"
        )
    theirs, ours = (below(SIGMA, each.tensors) for each in (upload, model))
    if {k: v.shape for k, v in theirs.items()} != {k: v.shape for k, v in ours.items()}:
        raise InputError(
            f"{path}: shapes of sigma differ from {model.path}; helpers are the uploads of "
            "--objective fedmatch from which the global model was made"
        )
    return facts.client


@torch.inference_mode()
def _answer(net: Net, model: Checkpoint, seed: int) -> np.ndarray:
    """Probabilities of the classes for a noise image, common to the models."""
    a = full_architecture(model.path, model.facts)
    rng = torch_generator(seed, "helpers")
    noise = torch.randn(1, a.channels, a.image_size, a.image_size, generator=rng)
    h = net.eval().encoder(noise.to(next(net.parameters()).device))
    head: Any = net.head("classifier")
    return head(h).softmax(dim=1)[0].cpu().numpy()
