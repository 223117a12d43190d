"""Learners of the teachers: `method` is the function of the teacher's entry.

Each function returns an object that trains a net on images, and a function to call
before the first step, or None.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch

from furlkit.aggregators.similarity_rows import Similarities
from furlkit.data.batches import Batch, Images
from furlkit.files.ensemble import Ensemble
from furlkit.models.architecture import Net
from furlkit.models.description import ClassHead
from furlkit.objectives.learner import Stateless
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
