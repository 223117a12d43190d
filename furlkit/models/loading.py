"""From checkpoint to net and back."""

from pathlib import Path

import numpy as np
import torch
from torch import nn

from furlkit.data.augment import Augmentation
from furlkit.data.batches import View
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint, CheckpointFacts
from furlkit.models.architecture import Architecture, Net, build
from furlkit.weights import is_batchnorm_statistic

Tensors = dict[str, np.ndarray]


def architecture_of(path: Path, facts: CheckpointFacts) -> Architecture:
    """The architecture a checkpoint's header describes."""
    try:
        return Architecture.from_dict(facts.architecture)
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def fitting_net(checkpoint: Checkpoint) -> Net:
    """The net that a checkpoint's tensors fit, still empty and on no device."""
    net = build(architecture_of(checkpoint.path, checkpoint.facts), None)
    _check_complete(checkpoint.path, net, checkpoint.tensors)
    check_tensors(checkpoint.path, net, checkpoint.tensors)
    return net


def load_net(checkpoint: Checkpoint, device: torch.device) -> Net:
    """Build the net of a checkpoint and fill it."""
    net = fitting_net(checkpoint)
    state = {k: torch.from_numpy(v.copy()) for k, v in checkpoint.tensors.items()}
    net.load_state_dict(state, assign=True)
    for parameter in net.parameters():
        parameter.requires_grad_()
    return net.to(device)


def view_of(
    checkpoint: Checkpoint, how: Augmentation, channels_last: bool = False
) -> View:
    """How images become this model's input."""
    a = architecture_of(checkpoint.path, checkpoint.facts)
    mean, std = tuple(checkpoint.facts.mean), tuple(checkpoint.facts.std)
    return View(how, a.image_size, a.channels, mean, std, channels_last)


def fresh_statistics(architecture: Architecture) -> Tensors:
    """BatchNorm statistics as they are before any image was seen."""
    statistics = {}
    for name, tensor in build(architecture, None).state_dict().items():
        if is_batchnorm_statistic(name):
            start = float(name.endswith("running_var"))
            array = torch.full_like(tensor, start, device="cpu").numpy()
            statistics[name] = array
    return statistics


def tensors_of(module: nn.Module) -> Tensors:
    """A module's state as arrays, contiguous and on the CPU."""
    return {
        name: tensor.detach().cpu().contiguous().numpy()
        for name, tensor in module.state_dict().items()
    }


def check_tensors(path: Path, net: Net, tensors: Tensors) -> None:
    """Tensors must be ones that the net has, of the same shape and type."""
    wanted = net.state_dict()
    for name, array in tensors.items():
        if name not in wanted:
            raise InputError(f"{path}: has {name}, which its architecture has not")
        shape, dtype = tuple(wanted[name].shape), str(wanted[name].dtype)[6:]
        if array.shape != shape or array.dtype.name != dtype:
            raise InputError(
                f"{path}: {name} is {array.dtype} {array.shape}, its architecture has "
                f"{dtype} {shape}"
            )


def _check_complete(path: Path, net: Net, tensors: Tensors) -> None:
    missing = sorted(net.state_dict().keys() - tensors.keys())
    if missing and all(map(is_batchnorm_statistic, missing)):
        raise InputError(
            f"{path}: has no BatchNorm statistics (aggregated with --bn keep, each "
            "client has its own); use a client's checkpoint instead"
        )
    if missing:
        raise InputError(f"{path}: lacks {', '.join(missing[:3])} of its architecture")
