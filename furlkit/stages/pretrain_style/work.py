"""Train the style model of a client, and write the private file."""

from functools import partial
from pathlib import Path
from typing import Any

from furlkit import runtime
from furlkit.data.augmentation import Augmentation
from furlkit.data.batches import Images
from furlkit.files.clients import ClientId
from furlkit.files.journal import Journal
from furlkit.files.private import PrivateFacts, write_private
from furlkit.models.architecture import Net, build
from furlkit.models.loading import tensors_of, view_of
from furlkit.models.style import PREFIX
from furlkit.objectives import style
from furlkit.objectives.learner import Stateless
from furlkit.randomness import torch_generator
from furlkit.stages.pretrain_style import Inputs
from furlkit.training import run as training
from furlkit.training.loop import Purpose
from furlkit.weights import parts_of


def train_style(inputs: Inputs, number: ClientId, output: Path) -> dict[str, Any]:
    """FedStyle Algorithm 2; without epochs the model stays untrained."""
    options = inputs.options
    device = runtime.start(options.runtime)
    data: dict[str, Any] = {}
    purpose: Purpose = (options.seed, "pretrain-style", number)
    net = build(inputs.architecture, torch_generator(*purpose)).to(device)
    if options.plan.epochs:
        job = _job(inputs, number, net, purpose)
        every = options.execution.save_every
        data = training.run_jobs(job, output, inputs.provenance, every).facts()
    tensors = {PREFIX + name: array for name, array in tensors_of(net).items()}
    facts = PrivateFacts(number, 0, parts_of(tensors), [])
    data["content"] = write_private(output, tensors, {}, facts, inputs.provenance)
    if options.plan.epochs:
        Journal(output).note_result(data)
    return data


def _job(inputs: Inputs, number: ClientId, net: Net, purpose: Purpose) -> training.Job:
    options, index = inputs.options, inputs.index_of(number)
    training.prepare(net, options.execution)
    view = view_of(inputs.model, Augmentation(), options.execution.channels_last)
    device = runtime.device_of(options.runtime)
    step = partial(
        style.step,
        temperature=options.temperature,
        reduction=options.reduction,
        normalised=options.normalise,
    )
    return training.Job(
        title=f"style of client {number}",
        learner=Stateless(net, step),
        images=Images(inputs.images.images, None, index, view, device),
        plan=options.plan,
        purpose=purpose,
        may_collapse=True,
    )
