"""Arithmetic on the tensors of a model, including integer buffers.

Sums are computed in float64, and the result has the dtype of the inputs. Integer
buffers (BatchNorm's `num_batches_tracked`) are not averaged, since a mean of counts is
not a count: the result is the maximum.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

Tensors = dict[str, np.ndarray]
# First words of names that mark a further net: target.encoder, own.projector.
NESTED = ("target", "own", "last", "sigma", "style", "control")
OWN = "own."  # Prefix of a personal model's tensors and losses.
# Parts that FedStyle's clients keep between rounds: f_s, g_s; G; keys of infused views.
STYLE = ("style", "generator", "infused_queue")
# Parts that never leave the client: rows of private images, and the style.
PRIVATE = ("queue", *STYLE)
_BATCHNORM_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def outlines(tensors: Tensors) -> Tensors:
    """Arrays with the shapes and types of the tensors, and without their memory."""
    return {
        name: np.broadcast_to(np.zeros((), array.dtype), array.shape)
        for name, array in tensors.items()
    }


def is_batchnorm_statistic(name: str) -> bool:
    """Return whether BatchNorm's forward pass computes this tensor, not the optimiser."""
    return name.rpartition(".")[2] in _BATCHNORM_STATISTICS


def online_name(name: str) -> str:
    """Name of the trained tensor that initialises a tensor of the target network."""
    return name.removeprefix("target.")


def part_of(name: str) -> str:
    """Part of a model that contains a tensor: encoder, projector, target.encoder."""
    words = name.split(".")
    return ".".join(words[:2] if words[0] in NESTED else words[:1])


def parts_of(names: Iterable[str]) -> list[str]:
    """Parts that contain the tensors with these names, sorted."""
    return sorted({part_of(name) for name in names})


def within(part: str, parts: Iterable[str]) -> bool:
    """Return whether a part is in `parts`; "target" matches every part under `target.`"""
    return any(part == one or part.startswith(f"{one}.") for one in parts)


def divide(tensors: Tensors, sent: Iterable[str]) -> tuple[Tensors, Tensors]:
    """Divide tensors into the tensors of sent parts and the tensors of kept parts."""
    chosen = tuple(sent)
    out: Tensors = {}
    rest: Tensors = {}
    for name, array in tensors.items():
        (out if within(part_of(name), chosen) else rest)[name] = array
    return out, rest


def below(prefix: str, tensors: dict[str, T]) -> dict[str, T]:
    """Select the tensors with names that start with `prefix`, and strip the prefix."""
    return {
        k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)
    }


def add_weighted(total: Tensors, tensors: Tensors, share: float) -> Tensors:
    """total + share * tensors in float64: the next step of a weighted mean.

    An empty `total` starts the sum; `narrowed` ends the sum.
    """
    added = {}
    for name, array in tensors.items():
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        columns = [total[name], wide] if total else [wide]
        shares = [1.0, share] if total else [share]
        # numpy turns arrays without dimensions into plain numbers.
        added[name] = np.asarray(weighted_sum(columns, shares))
    return added


def mixed(own: Tensors, other: Tensors, share: float) -> Tensors:
    """share * own + (1 - share) * other, for the tensors in both."""
    return {
        name: np.asarray(weighted_sum([own[name], array], [share, 1 - share]))
        for name, array in other.items()
        if name in own
    }


def moved(tensors: Tensors, before: Tensors, after: Tensors) -> Tensors:
    """tensors + (after - before), by name."""
    wide = np.float64
    return {
        name: (array + (after[name].astype(wide) - before[name])).astype(array.dtype)
        for name, array in tensors.items()
    }


def narrowed(total: Tensors, like: Tensors) -> Tensors:
    """Convert a sum to the types of the stored tensors."""
    return {name: array.astype(like[name].dtype) for name, array in total.items()}


def weighted_sum(arrays: Iterable[np.ndarray], shares: Sequence[float]) -> np.ndarray:
    """sum_k shares[k] * arrays[k], in the given order, with the dtype of the arrays."""
    total = dtype = None
    for array, share in zip(arrays, shares, strict=True):
        if array.dtype.kind != "f":
            total = array.copy() if total is None else np.maximum(total, array)
            continue
        if total is None:
            dtype = array.dtype
            # Adding -0.0 changes no number, whereas -0.0 + 0.0 is 0.0.
            total = np.full(array.shape, -0.0)
            product = np.empty(array.shape)
        # Three plain passes are faster than one pass that converts and multiplies.
        np.copyto(product, array)
        product *= share
        total += product
    if total is None:
        raise ValueError("no arrays to sum")
    return total if dtype is None else total.astype(dtype)


def without_counts(upload: Tensors, received: Tensors) -> Tensors:
    """The upload with BatchNorm's counts of batches from the received model.

    The client's counts would reveal the number of images; no computation needs them.
    """
    return {
        k: received.get(k, np.zeros_like(v))
        if k.endswith(".num_batches_tracked")
        else v
        for k, v in upload.items()
    }
