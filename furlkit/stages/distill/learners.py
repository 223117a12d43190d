"""Learners of the teachers: `method` is the function of the teacher's entry.

Each function returns an object that trains a net on images, and a function to call
before the first step, or None.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from furlkit.aggregators.similarity_rows import Similarities
from furlkit.data.batches import Batch, Images
from furlkit.files.checkpoint import Checkpoint, read_checkpoint
from furlkit.files.ensemble import Ensemble
from furlkit.models.architecture import Net, drawn
from furlkit.models.description import ClassHead
from furlkit.models.heads import mlp
from furlkit.models.loading import load_net
from furlkit.objectives.learner import Stateless
from furlkit.objectives.mkd import Attention
from furlkit.randomness import torch_generator
from furlkit.training.loop import Purpose, positions

Method = Callable[..., Any]
Made = tuple[Any, Callable[[], None] | None]


def by_method(
    method: Method, net: Net, _: Images, __: Purpose, **settings: Any
) -> Made:
    """Learner that the method returns for a net."""
    return method(net, **settings), None


def stateless(
    method: Method, net: Net, _: Images, __: Purpose, **settings: Any
) -> Made:
    """Learner whose step is the method."""
    return Stateless(net, partial(method, **settings)), None


def probabilities(
    method: Method,
    net: Net,
    images: Images,
    purpose: Purpose,
    head: ClassHead,
    rows: np.ndarray,
) -> Made:
    """Learner of the probabilities of each image."""
    p = torch.from_numpy(rows).to(next(net.parameters()).device)
    return stateless(method, net, images, purpose, head=head, probabilities=p)


def ensemble(
    method: Method,
    net: Net,
    images: Images,
    purpose: Purpose,
    ensemble: Ensemble,
    anchors: int,
    batch_size: int,
    **settings: Any,
) -> Made:
    """Learner of the clients' similarities; fills the queue before the first step."""
    known = _similarities(ensemble, next(net.parameters()).device)
    learner = method(net, known, anchors=anchors, **settings)
    keys = partial(_first_keys, images, purpose, anchors, batch_size)
    return learner, lambda: learner.fill(keys())


def anchored(
    method: Method,
    net: Net,
    images: Images,
    purpose: Purpose,
    anchor: Checkpoint,
    channels_last: bool,
) -> Made:
    """Learner of the global model's z."""
    (project,) = projections([anchor], net, channels_last)
    return stateless(method, net, images, purpose, anchor=project)


def taught(
    method: Method,
    net: Net,
    _: Images,
    purpose: Purpose,
    teachers: Sequence[Checkpoint],
    integration: str,
    adapter: int,
    channels_last: bool,
    **settings: Any,
) -> Made:
    """Learner of the clients' models, weighted for every image by attention or equally."""
    attention = None
    if integration == "adaptive":
        device = next(net.parameters()).device
        attention = _attention(settings["width"], adapter, purpose).to(device)
    nets = projections(teachers, net, channels_last)
    return method(net, nets, attention, **settings), None


def projections(
    teachers: Sequence[Checkpoint], like: nn.Module, channels_last: bool
) -> list[Callable[[Tensor], Tensor]]:
    """Functions from views to z, of frozen nets in eval mode, on the student's device."""
    device = next(like.parameters()).device
    found: list[Callable[[Tensor], Tensor]] = []
    for teacher in teachers:
        net = load_net(read_checkpoint(teacher.path), device)
        if channels_last:
            net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        net.requires_grad_(False).eval()
        projector = net.get_submodule("projector")
        found.append(nn.Sequential(net.encoder, projector).eval())
    return found


def _attention(width: int, k: int, purpose: Purpose) -> Attention:
    """The adapter has a hidden layer as wide as z."""
    with torch.device("meta"):
        attention: nn.Module = Attention(mlp(width, (width, k)), k)
    return drawn(attention, torch_generator(*purpose, "attention"))  # type: ignore


def _similarities(ensemble: Ensemble, device: torch.device) -> Similarities:
    """Move the ensemble to the training device; a matrix stays on disk."""
    parts = [torch.from_numpy(part).to(device) for part in ensemble.parts.values()]
    columns = [
        torch.from_numpy(places).long().to(device)
        for places in ensemble.columns.values()
    ]
    facts = ensemble.facts
    return Similarities(
        parts,
        columns,
        ensemble.matrix,
        tau_T=facts.temperature,
        trim=facts.trim,
        name=str(ensemble.path),
    )


def _first_keys(
    images: Images, purpose: Purpose, anchors: int, batch_size: int
) -> Iterator[Batch]:
    """Yield random batches to fill the queue; their steps count up to -1."""
    steps = -(-anchors // min(batch_size, len(images)))
    for step in range(steps):
        index = positions(images, batch_size, (*purpose, "fill"), step)
        generator = torch_generator(*purpose, "fill", step)
        yield images.batch(index, generator, step - steps)
