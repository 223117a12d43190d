"""From checkpoint to net and back."""

from collections.abc import Iterable, Mapping, Set
from pathlib import Path

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from furlkit.data.augmentation import Augmentation
from furlkit.data.batches import View
from furlkit.errors import InputError
from furlkit.files.checkpoint import Checkpoint
from furlkit.models.architecture import Net, build
from furlkit.models.description import architecture_of
from furlkit.weights import Tensors, divide, is_batchnorm_statistic, part_of


def fitting_net(checkpoint: Checkpoint) -> Net:
    """Empty net that fits a checkpoint's tensors, on no device."""
    path, facts = checkpoint.path, checkpoint.facts
    architecture = architecture_of(path, facts)
    net = build(architecture, None)
    expected, own = net.state_dict(), ("encoder", *architecture.heads)
    # A file may declare and contain further parts (a target).
    more = [part for part in facts.parts or () if part not in own]
    tensors = divide(checkpoint.tensors, more)[1]
    _check_complete(path, net, sorted(expected.keys() - tensors.keys()))
    check_tensors(path, expected, tensors)
    return net


def check_fit(checkpoints: Iterable[Checkpoint]) -> None:
    """Check that the tensors of each checkpoint fit the architecture."""
    for checkpoint in checkpoints:
        fitting_net(checkpoint)


def load_net(checkpoint: Checkpoint, device: torch.device) -> Net:
    """Build the net of a checkpoint and fill it."""
    net = fitting_net(checkpoint)
    names = net.state_dict().keys()
    tensors = {k: v for k, v in checkpoint.tensors.items() if k in names}
    state = {k: torch.from_numpy(v.copy()) for k, v in tensors.items()}
    net.load_state_dict(state, assign=True)
    return net.requires_grad_().to(device)


def view_of(
    checkpoint: Checkpoint, how: Augmentation, channels_last: bool = False
) -> View:
    """Conversion of images to the model's input."""
    a = architecture_of(checkpoint.path, checkpoint.facts)
    mean, std = tuple(checkpoint.facts.mean), tuple(checkpoint.facts.std)
    return View(how, a.image_size, a.channels, mean, std, channels_last)


def tensors_of(module: nn.Module) -> Tensors:
    """State of a module in contiguous arrays on the CPU."""
    return {
        name: tensor.detach().cpu().contiguous().numpy()
        for name, tensor in module.state_dict().items()
    }


def load_tensors(module: nn.Module, tensors: Tensors) -> None:
    """Copy tensors into a module, in place; other tensors stay unchanged."""
    own = module.state_dict()
    with torch.no_grad():
        for name, array in tensors.items():
            own[name].copy_(torch.from_numpy(array))


def check_tensors(
    path: Path,
    expected: Mapping[str, torch.Tensor],
    tensors: Tensors,
    owner: str = "its architecture",
) -> None:
    """Refuse tensors that the owner lacks, or with another shape or type."""
    for name, array in tensors.items():
        if name not in expected:
            raise InputError(f"{path}: has {name}, which {owner} lacks")
        shape = tuple(expected[name].shape)
        dtype = str(expected[name].dtype).removeprefix("torch.")
        if array.shape != shape or array.dtype.name != dtype:
            raise InputError(
                f"{path}: {name} is {array.dtype} {array.shape}, {owner} has "
                f"{dtype} {shape}"
            )


def check_parts(model: Checkpoint, expected: Set[str]) -> None:
    """Refuse a model without an encoder, or without tensors of a part in its header."""
    facts = model.facts
    for name in sorted(expected - model.tensors.keys()):
        declared = facts.parts is None or part_of(name) in facts.parts
        if declared and (facts.statistics or not is_batchnorm_statistic(name)):
            raise InputError(f"{model.path}: lacks {name} of its architecture")
    if facts.parts is not None and "encoder" not in facts.parts:
        raise InputError(f"{model.path}: has no encoder, which every client needs")


def batchnorm_names(net: nn.Module) -> set[str]:
    """Names of the tensors of BatchNorm layers: weights, biases, statistics."""
    layers = {k: m for k, m in net.named_modules() if isinstance(m, _BatchNorm)}
    return {f"{place}.{name}" for place, m in layers.items() for name in m.state_dict()}


def _check_complete(path: Path, net: nn.Module, missing: list[str]) -> None:
    """Refuse a file without every tensor of the net."""
    if missing and all(map(is_batchnorm_statistic, missing)):
        raise InputError(
            f"{path}: has no BatchNorm statistics (aggregated with --bn keep; clients "
            "keep theirs); use a client's checkpoint instead"
        )
    if missing and batchnorm_names(net).issuperset(missing):
        raise InputError(
            f"{path}: has no BatchNorm layers (local-train --keep-norms: clients keep "
            "theirs); use evaluate personal with the clients' private files"
        )
    if missing:
        raise InputError(f"{path}: lacks {', '.join(missing[:3])} of its architecture")
