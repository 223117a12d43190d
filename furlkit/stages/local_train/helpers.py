"""FedMatch's helpers: the other clients whose models are nearest to a client's own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.clients import ClientId, client_order
from furlkit.models.architecture import Net
from furlkit.models.loading import full_architecture, load_net
from furlkit.objectives.fedmatch import nearest_clients
from furlkit.randomness import torch_generator
from furlkit.weights import Tensors, below

SIGMA = "sigma."


@dataclass(frozen=True)
class Helpers:
    """The uploads that helpers are chosen from, and how many are chosen."""

    helper_files: tuple[Path, ...]
    helper_count: int


class Candidate(NamedTuple):
    """A client's upload, and what its model answers to the input that all are asked."""

    path: Path
    content: str
    answer: np.ndarray


class Candidates(NamedTuple):
    """All uploads by client, and what the global model answers."""

    by_client: dict[ClientId, Candidate]
    own: np.ndarray

    def nearest(self, client: ClientId, count: int) -> dict[ClientId, Candidate]:
        """A client's helpers; one that did not take part asks with the global model."""
        others = {k: c for k, c in self.by_client.items() if k != client}
        mine = self.by_client.get(client)
        answers = {k: candidate.answer for k, candidate in others.items()}
        near = nearest_clients(answers, mine.answer if mine else self.own, count)
        return {k: others[k] for k in sorted(near, key=client_order)}


def open_candidates(
    helpers: Helpers | None, model: Checkpoint, seed: int, device: torch.device
) -> Candidates | None:
    """Check the uploads one after the other, and ask each model; None without any."""
    if helpers is None or not helpers.helper_files:
        return None
    if not below(SIGMA, model.tensors):
        raise InputError(
            f"{model.path}: has no sigma, which helpers are compared by; it was not made "
            "from uploads of --objective fedmatch"
        )
    found: dict[ClientId, Candidate] = {}
    for path in helpers.helper_files:
        upload = read_checkpoint(path)
        client = _checked(upload, model, found)
        answer = _answer(helper_net(upload, model, device), model, seed)
        found[client] = Candidate(path, upload.content, answer)
    return Candidates(found, _answer(load_net(model, device), model, seed))


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
