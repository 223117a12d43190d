"""Arithmetic on the tensors of a model, including integer buffers.

Sums are computed in float64, and the result has the dtype of the inputs. Integer
buffers (BatchNorm's `num_batches_tracked`) are not averaged, since a mean of counts is
not a count: the result is their maximum.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")

Tensors = dict[str, np.ndarray]
# Words before a name that hold a net of their own: target.encoder, own.projector.
NESTED = ("target", "own", "last", "sigma", "style", "control")
OWN = "own."  # Before the names of a client's own model and its losses.
# What FedStyle's clients keep from round to round: f_s, g_s; G; keys of infused views.
STYLE = ("style", "generator", "infused_queue")
# Parts that never leave the client: rows of its own images, and its style.
PRIVATE = ("queue", *STYLE)
_BATCHNORM_STATISTICS = ("running_mean", "running_var", "num_batches_tracked")


def is_batchnorm_statistic(name: str) -> bool:
    """Whether BatchNorm's forward pass computes this tensor, rather than training."""
    return name.rpartition(".")[2] in _BATCHNORM_STATISTICS


def online_name(name: str) -> str:
    """The tensor of the trained network that one of a target network starts as."""
    return name.removeprefix("target.")


def part_of(name: str) -> str:
    """The part of a model that a tensor belongs to: encoder, projector, target.encoder."""
    words = name.split(".")
    return ".".join(words[:2] if words[0] in NESTED else words[:1])


def parts_of(names: Iterable[str]) -> list[str]:
    """The parts that tensors of these names make up, sorted."""
    return sorted({part_of(name) for name in names})


def within(part: str, parts: Iterable[str]) -> bool:
    """Whether a part is one of `parts`; "target" stands for all that is target's."""
    return any(part == one or part.startswith(f"{one}.") for one in parts)


def divide(tensors: Tensors, sent: Iterable[str]) -> tuple[Tensors, Tensors]:
    """The tensors of the parts that are sent, and all others, which are kept."""
    chosen = tuple(sent)
    out: Tensors = {}
    rest: Tensors = {}
    for name, array in tensors.items():
        (out if within(part_of(name), chosen) else rest)[name] = array
    return out, rest


def below(prefix: str, tensors: dict[str, T]) -> dict[str, T]:
    """The tensors whose names start with `prefix`, without it."""
    return {
        k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)
    }


def add_weighted(total: Tensors, tensors: Tensors, share: float) -> Tensors:
    """total + share * tensors in float64: the next step of a weighted mean.

    An empty `total` starts the sum. `narrowed` ends it.
    """
    added = {}
    for name, array in tensors.items():
        wide = array.astype(np.float64) if array.dtype.kind == "f" else array
        columns = [total[name], wide] if total else [wide]
        shares = [1.0, share] if total else [share]
        # numpy makes plain numbers of arrays that have no dimension.
        added[name] = np.asarray(weighted_sum(columns, shares))
    return added


def mixed(own: Tensors, other: Tensors, share: float) -> Tensors:
    """share * own + (1 - share) * other, of the tensors that both have."""
    return {
        name: np.asarray(weighted_sum([own[name], array], [share, 1 - share]))
        for name, array in other.items()
        if name in own
    }


def moved(tensors: Tensors, before: Tensors, after: Tensors) -> Tensors:
    """Tensors plus what others of the same names have changed by."""
    wide = np.float64
    return {
        name: (array + (after[name].astype(wide) - before[name])).astype(array.dtype)
        for name, array in tensors.items()
    }


def narrowed(total: Tensors, like: Tensors) -> Tensors:
    """A sum in the types that the tensors are stored in."""
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
        # Three plain passes are faster than one that converts as it multiplies.
        np.copyto(product, array)
        product *= share
        total += product
    if total is None:
        raise ValueError("no arrays to sum")
    return total if dtype is None else total.astype(dtype)
