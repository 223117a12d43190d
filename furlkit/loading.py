"""From checkpoint to net and back."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import View
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.nets import Architecture, Net, build
from furlkit.weights import is_batchnorm_statistic

Tensors = dict[str, np.ndarray]


def architecture_of(path: Path, facts: CheckpointFacts) -> Architecture:
    """The architecture a checkpoint's header describes."""
    try:
        return Architecture.from_dict(facts.architecture)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def load_net(
    checkpoint: Checkpoint, device: torch.device, own: Tensors | None = None
) -> Net:
    """Build the net of a checkpoint and fill it; `own` adds to its tensors."""
    net = build(architecture_of(checkpoint.path, checkpoint.facts), None)
    tensors = {**(own or {}), **checkpoint.tensors}
    _check_fit(checkpoint.path, net, tensors)
    state = {name: torch.from_numpy(array.copy()) for name, array in tensors.items()}
    net.load_state_dict(state, assign=True)
    for parameter in net.parameters():
        parameter.requires_grad_()
    return net.to(device)


def view_of(checkpoint: Checkpoint, how: Augmentation) -> View:
    """How images become this model's input."""
    a = architecture_of(checkpoint.path, checkpoint.facts)
    facts = checkpoint.facts
    return View(how, a.image_size, a.channels, tuple(facts.mean), tuple(facts.std))


def fresh_statistics(architecture: Architecture) -> Tensors:
    """BatchNorm statistics as they are before any image was seen."""
    statistics = {}
    for name, tensor in build(architecture, None).state_dict().items():
        if is_batchnorm_statistic(name):
            empty = torch.zeros_like(tensor, device="cpu").numpy()
            statistics[name] = empty + 1 if name.endswith("running_var") else empty
    return {name: array.astype(array.dtype) for name, array in statistics.items()}


def tensors_of(module: nn.Module) -> Tensors:
    """A module's state as arrays, contiguous and on the CPU."""
    return {
        name: tensor.detach().cpu().contiguous().numpy()
        for name, tensor in module.state_dict().items()
    }


def _check_fit(path: Path, net: Net, tensors: Tensors) -> None:
    wanted = {name: tuple(t.shape) for name, t in net.state_dict().items()}
    missing, foreign = wanted.keys() - tensors.keys(), tensors.keys() - wanted.keys()
    if missing and all(map(is_batchnorm_statistic, missing)):
        raise InputError(
            f"{path}: has no BatchNorm statistics (aggregated with --bn keep, each "
            "client has its own); use a client's checkpoint instead"
        )
    if missing or foreign:
        odd = sorted(missing or foreign)
        state = "lacks" if missing else "has the unexpected"
        raise InputError(f"{path}: {state} {', '.join(odd[:3])} of its architecture")
    for name, shape in wanted.items():
        if tensors[name].shape != shape:
            raise InputError(
                f"{path}: {name} is {tensors[name].shape}, its architecture has {shape}"
            )
