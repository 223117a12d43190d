"""FedMatch's helpers: the other clients whose models are nearest to a client's own."""

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from furlkit.errors import InputError
from furlkit.exchanges.exchange import Client, Exchange, Setup, Values, is_asked_for
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.models.architecture import Net
from furlkit.models.loading import full_architecture, load_net
from furlkit.objectives.fedmatch import nearest_clients
from furlkit.randomness import torch_generator
from furlkit.weights import Tensors, below

SIGMA = "sigma."


class Candidate(NamedTuple):
    """A client's upload, and the model's answer to the input that all models get."""

    path: Path
    content: str
    answer: np.ndarray


class Helpers(Exchange):
    """The uploads that helpers are chosen from, and how many are chosen."""

    def __init__(self, values: Values) -> None:
        self.inputs = self._files = values.get("helper_files", ())
        self.active = is_asked_for("helpers", values) and bool(self._files)
        self._count = values.get("helper_count", 0)

    def open(self, setup: Setup) -> None:
        """Check each upload, and compute the answer of each model."""
        self._setup, model = setup, setup.model
        if not below(SIGMA, model.tensors):
            raise InputError(
                f"{model.path}: has no sigma, which helpers are compared by; it was not "
                "made from uploads of --objective fedmatch"
            )
        self._candidates: dict[ClientId, Candidate] = {}
        for path in self._files:
            upload = read_checkpoint(path)
            client = _checked(upload, model, self._candidates)
            net = helper_net(upload, model, setup.device)
            answer = _answer(net, model, setup.seed)
            self._candidates[client] = Candidate(path, upload.content, answer)
        self._own = _answer(load_net(model, setup.device), model, setup.seed)

    def start(self, client: Client) -> None:
        """Choose helpers; a client that did not take part asks with the global model."""
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
        files = (read_checkpoint(helper.path) for helper in self._chosen.values())
        return {"helpers": [helper_net(file, model, device) for file in files]}


def helper_net(upload: Checkpoint, model: Checkpoint, device: torch.device) -> Net:
    """The net of a helper: its own psi, and the sigma that the server has by now."""
    theirs, ours = below(SIGMA, upload.tensors), below(SIGMA, model.tensors)
    restored: Tensors = {
        name: array + (ours[name] - theirs[name]) if name in ours else array
        for name, array in upload.tensors.items()
    }
    net = load_net(replace(upload, tensors=restored), device)
    return net.requires_grad_(False).eval()


def _checked(upload: Checkpoint, model: Checkpoint, found: dict) -> ClientId:
    """The client of an upload that the global model was made from."""
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
            f"{model.facts.round}; helpers are the uploads that it was made from"
        )
    theirs, ours = (below(SIGMA, each.tensors) for each in (upload, model))
    if {k: v.shape for k, v in theirs.items()} != {k: v.shape for k, v in ours.items()}:
        raise InputError(
            f"{path}: its sigma is not like that of {model.path}; helpers are uploads of "
            "--objective fedmatch, which the model was made from"
        )
    return facts.client


@torch.inference_mode()
def _answer(net: Net, model: Checkpoint, seed: int) -> np.ndarray:
    """Probabilities of the classes for noise, the same for every model."""
    a = full_architecture(model.path, model.facts)
    rng = torch_generator(seed, "helpers")
    noise = torch.randn(1, a.channels, a.image_size, a.image_size, generator=rng)
    h = net.eval().encoder(noise.to(next(net.parameters()).device))
    head: Any = net.head("classifier")
    return head(h).softmax(dim=1)[0].cpu().numpy()
