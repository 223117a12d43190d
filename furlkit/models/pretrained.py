"""Weights of a network for a network with a different stem, channels or image size."""

from collections.abc import Mapping
from math import isqrt
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F

from furlkit.errors import InputError
from furlkit.files.pretrained import Pretrained
from furlkit.models.architecture import Net
from furlkit.models.description import Architecture
from furlkit.models.libraries import first_convolution
from furlkit.weights import Tensors, is_batchnorm_statistic

ENCODER = "encoder."
# Additional classifiers of GoogLeNet and Inception, used only in training.
AUXILIARY = ("encoder.aux1.", "encoder.aux2.", "encoder.AuxLogits.")

LARGEST = 1e12  # Trained networks stay far below; the squares of 1e19 are infinite.
Shape = tuple[int, ...]
Changed = tuple[np.ndarray, list[str]]  # A tensor, and the changes in words.


class Fitted(NamedTuple):
    """Tensors for a net, the changes made to fit them, and the names left out."""

    tensors: Tensors
    changes: list[str]
    left_out: list[str]


def fitted(source: Pretrained, net: Net, own: Tensors, a: Architecture) -> Fitted:
    """Tensors taken over by a net of this architecture; `own`: the net's tensors."""
    left_out = _check_names(source, own, a)
    stem = first_convolution(net.encoder)
    first = f"{ENCODER}{stem}.weight" if stem else None
    taken: Tensors = {}
    changes: dict[str, None] = {}  # An ordered set: a type change affects all tensors.
    for name, array in source.tensors.items():
        if name in own:
            _check_values(source, name, array)
            array, types = _of_type(array, own[name].dtype)
            array, how = _of_shape(name, array, own[name].shape, name == first)
            changes |= dict.fromkeys([*types, *how])
            taken[name] = array
    _check_fitted(source, taken, own)
    return Fitted(taken, list(changes), left_out)


def _check_names(source: Pretrained, own: Tensors, a: Architecture) -> list[str]:
    """Require equal encoder tensors; return the names of the unused classifier."""
    theirs = {name for name in source.tensors if name.startswith(ENCODER)}
    ours = {name for name in own if name.startswith(ENCODER)}
    # BatchNorm counts may be missing; in checkpoints, all statistics.
    may_lack = _is_count if source.whole else is_batchnorm_statistic
    lacking = {name for name in ours - theirs if not may_lack(name)}
    more = {name for name in theirs - ours if not _classifies(name, source, a)}
    if lacking or more:
        found = f"lacks {_some(lacking)}" if lacking else f"has {_some(more)}"
        verb = "has" if lacking else "lacks"
        raise InputError(
            f"{source.path}: {found}, which {a.encoder} {verb}; give init the matching "
            "--encoder"
        )
    return sorted(name.removeprefix(ENCODER) for name in theirs - ours)


def _is_count(name: str) -> bool:
    return name.endswith(".num_batches_tracked")


def _classifies(name: str, source: Pretrained, a: Architecture) -> bool:
    """Return True for tensors of a linear layer that reads h, like a classifier."""
    if not source.whole:
        return False
    weight = source.tensors.get(f"{name.rpartition('.')[0]}.weight", np.empty(0))
    reads_h = weight.shape[1:] in ((a.feature_dim,), (a.feature_dim, 1, 1))
    return reads_h or name.startswith(AUXILIARY)


def _check_values(source: Pretrained, name: str, array: np.ndarray) -> None:
    """Refuse damaged numbers, which would make h infinite or NaN."""
    if array.dtype.kind != "f" or not array.size:
        return
    least, most = float(array.min()), float(array.max())
    extreme = least if -least > most else most
    if abs(extreme) > LARGEST:
        found = f"has the value {extreme:g}; expected numbers up to {LARGEST:g}"
    elif name.endswith(".running_var") and least < 0:
        found = f"has the variance {least:g}; expected 0 or more"
    else:
        return
    raise InputError(
        f"{source.path}: {name} {found}; the weights are damaged or the training "
        "diverged; fetch the file again, or give init another --from"
    )


def _of_type(array: np.ndarray, dtype: np.dtype) -> Changed:
    if array.dtype == dtype or not array.dtype.kind == dtype.kind == "f":
        return array, []
    return array.astype(dtype), [f"{array.dtype} to {dtype}"]


def _of_shape(name: str, array: np.ndarray, shape: Shape, first: bool) -> Changed:
    """Convert an input tensor to another shape if possible; `first` marks the stem."""
    if array.shape == shape:
        return array, []
    short = name.removeprefix(ENCODER)
    if first and array.ndim == len(shape) == 4:
        array, how = _fitted_stem(array, shape)
    elif "pos_embed" in name:
        array, how = _fitted_positions(array, shape)
    else:
        how = []
    return array, [f"{short} {change}" for change in how]


def _check_fitted(source: Pretrained, taken: Tensors, own: Tensors) -> None:
    for name, array in taken.items():
        if (array.shape, array.dtype) != (own[name].shape, own[name].dtype):
            found = source.tensors[name]
            raise InputError(
                f"{source.path}: {name} is {found.dtype} {found.shape}, the new model has "
                f"{own[name].dtype} {own[name].shape}; give init the same --encoder, "
                "--width, --stem, --image-size and heads"
            )


def _fitted_stem(weight: np.ndarray, shape: Shape) -> Changed:
    """Convert filters (O, C, k, k) to other channels and another k.

    Every channel gets the mean filter, scaled to keep the sum: the response to images
    with equal channels does not change. Resized filters keep their sum too: the
    response to flat surfaces does not change.
    """
    changes = []
    if weight.shape[1] != shape[1]:
        changes.append(f"from {weight.shape[1]} to {shape[1]} channels")
        summed = weight.sum(axis=1, keepdims=True)
        weight = np.repeat(summed / shape[1], shape[1], axis=1).astype(weight.dtype)
    if weight.shape[:2] == shape[:2] and weight.shape[2:] != shape[2:]:
        old, new = weight.shape[2:], shape[2:]
        changes.append(f"from {_by(old)} to {_by(new)} (--stem, patches)")
        weight = _resampled(weight, new) * np.float32(np.prod(old) / np.prod(new))
    return weight, changes


def _fitted_positions(positions: np.ndarray, shape: Shape) -> Changed:
    """Position embeddings (1, p + n * n, D), with p tokens that are not patches."""
    if positions.ndim != 3 or len(shape) != 3 or positions.shape[2] != shape[2]:
        return positions, []
    sides = (_sides(positions.shape[1], shape[1], p) for p in range(8))
    p, old, new = next(filter(None, sides), (0, 0, 0))
    if not new:
        return positions, []
    grid = positions[:, p:].reshape(1, old, old, -1).transpose(0, 3, 1, 2)
    moved = _resampled(grid, (new, new)).transpose(0, 2, 3, 1)
    flat = moved.reshape(1, new * new, -1)
    change = f"from {old} x {old} to {new} x {new} positions (--image-size)"
    return np.concatenate([positions[:, :p], flat], axis=1), [change]


def _sides(before: int, after: int, p: int) -> tuple[int, int, int] | None:
    """p and the sides of two squares of patches, or None."""
    old, new = isqrt(max(before - p, 0)), isqrt(max(after - p, 0))
    fits = old * old == before - p and new * new == after - p
    return (p, old, new) if fits and old and new else None


def _resampled(maps: np.ndarray, size: Shape) -> np.ndarray:
    """(A, B, h, w) -> (A, B, *size), bicubic with antialiasing."""
    found = torch.from_numpy(np.ascontiguousarray(maps))
    options = {"mode": "bicubic", "antialias": True}
    return F.interpolate(found, size, **options).numpy()  # type: ignore[arg-type]


def _by(size: Shape) -> str:
    return " x ".join(map(str, size))


def _some(names: set[str] | Mapping[str, object]) -> str:
    shown = sorted(name.removeprefix(ENCODER) for name in names)[:3]
    return ", ".join(shown) + (", ..." if len(names) > 3 else "")
