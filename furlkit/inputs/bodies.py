"""What is in a model that a client sent: looked at once, in pieces, before it counts.

A value that is not finite, a BatchNorm statistic that no training gives, and weights out
of all proportion are refused with the name of their tensor.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from math import prod, sqrt
from pathlib import Path
from typing import NamedTuple, Protocol

import numpy as np

from furlkit.aggregators.sketch import WIDTH, sketch_of
from furlkit.errors import InputError
from furlkit.files.checkpoint import check_finite
from furlkit.files.container.layout import Entry
from furlkit.files.container.read import Container
from furlkit.files.container.seal import PIECE
from furlkit.inputs.uploads import OpenedUpload, check_fit
from furlkit.weights import is_batchnorm_statistic, online_name

FACTOR = 1e4
# Sums of squares in float32 are a little off.
SLACK = 0.9


class Size(NamedTuple):
    """How large the numbers of a tensor are: the sum of squares, and the largest."""

    square: float
    largest: float


Sizes = dict[str, Size]


class Body(NamedTuple):
    """The sizes of the tensors of a model, and the sketch of its weights."""

    sizes: Sizes
    sketch: np.ndarray


class Model(OpenedUpload, Protocol):
    """A checkpoint of a client, with the sizes of its tensors."""

    @property
    def sizes(self) -> Sizes:
        """What `examined_body` gives."""


def examined_body(opened: Container, by: str | None, remember: bool = False) -> Body:
    """The size of each tensor of floats and of each counter; all are checked.

    `by` is the hash to compare, `content` or `check`; None leaves it to a later pass.
    With `remember` a later pass compares its bytes with the bytes that were read here.
    """
    found: Sizes = {}
    sketch, number = np.zeros(WIDTH), Counter[str]()
    for entry, data in opened.verified_pieces(by, remember):
        piece, name = data.view(entry.dtype), entry.name
        statistic = is_batchnorm_statistic(name)
        if statistic:
            _check_statistic(opened.path, name, piece)
        if piece.dtype.kind == "f" or statistic:
            square, largest = found.get(name, Size(0.0, 0.0))
            squared = _squared(opened, entry, piece)
            found[name] = Size(square + squared, max(largest, _largest(piece)))
        if piece.dtype.kind == "f" and not statistic:
            sketch += sketch_of(piece, name, number[name], prod(entry.shape))
        number[name] += 1
    return Body(found, sketch.astype(np.float32))


def sketch_of_parent(opened: Container, names: Iterable[str]) -> np.ndarray | None:
    """The sketch of the tensors of these names in a global model; None if one lacks.

    A target network starts as the network that is trained.
    """
    sketch = np.zeros(WIDTH)
    for name in names:
        stored = name if name in opened else online_name(name)
        if stored not in opened:
            return None
        values = opened.read(opened.entry(stored)).reshape(-1)
        step = PIECE // values.itemsize
        for number, start in enumerate(range(0, len(values), step)):
            piece = values[start : start + step]
            sketch += sketch_of(piece, name, number, len(values))
    return sketch.astype(np.float32)


def _largest(piece: np.ndarray) -> float:
    return max(-float(piece.min(initial=0)), float(piece.max(initial=0)))


def _squared(opened: Container, entry: Entry, piece: np.ndarray) -> float:
    if piece.dtype == np.float32:
        squared = float(np.vdot(piece, piece))
        if np.isfinite(squared):
            return squared
    wide = piece.astype(np.float64)
    squared = float(np.vdot(wide, wide))
    if not np.isfinite(squared):
        # The whole tensor has the number of such values; the file may change meanwhile.
        check_finite(opened.path, entry.name, opened.read(entry))
        check_finite(opened.path, entry.name, piece)
    return squared


def _check_statistic(path: Path, name: str, values: np.ndarray) -> None:
    """A variance is not below 0; a counter is not below 0 nor near its type's limit."""
    counts = values.dtype.kind in "iu"
    if name.endswith("running_var") or counts:
        lowest, highest = values.min(), values.max()
        # NaN is not below 0, and is found by its square.
        if lowest < 0 or (counts and highest > np.iinfo(values.dtype).max // 2):
            odd = lowest if lowest < 0 else highest
            kind = "counter of batches" if counts else "variance"
            raise InputError(
                f"{path}: {name} has {odd:.6g}, which is no {kind}; the file was made by "
                "hand or its training failed, train that client again"
            )


def check_sizes(models: Sequence[Model], statistics: bool) -> None:
    """Refuse a tensor with a number beyond FACTOR times the largest one of the others.

    It must also be larger than the others' weights are anywhere, and so much larger where
    the others have zeros: a bias may only just have begun to move. What counts as the
    others' is the median, the lower one. With `statistics` BatchNorm's are compared as
    well, among themselves, and its counters: the mean takes the largest, and one near its
    limit would have the honest clients of the next round refused.
    """
    counts: dict[str, int] = {}
    groups: dict[str, set[str]] = {
        "weights": set(),
        "statistics": set(),
        "counters": set(),
    }
    for model in models:
        for entry in model.opened.entries:
            counts[entry.name] = max(prod(entry.shape), 1)
            groups[_group(entry)].add(entry.name)
    for group in groups if statistics else ("weights",):
        names = sorted(groups[group])
        usual = {name: _usual_mean(models, name, counts[name]) for name in names}
        most = max([*usual.values(), float(group == "counters")])
        for name in names:
            check_fit(_too_large(models, name, usual[name], most))


def _too_large(
    models: Sequence[Model], name: str, mean: float, most: float
) -> Iterator[tuple[Model, str]]:
    """Each model with a number out of proportion, and the reason."""
    having = [model for model in models if name in model.sizes]
    # No number is larger than the length, nor the mean one than the largest.
    bound = SLACK * _bound(mean, most)
    if not any(sqrt(model.sizes[name].square) > bound for model in having):
        return
    usual = _lower_median([model.sizes[name].largest for model in having])
    for model in having:
        found = model.sizes[name].largest
        if sqrt(model.sizes[name].square) > bound and found > _bound(usual, most):
            yield (
                model,
                (
                    f"{name} has numbers up to {found:.4g}, those of the other clients are "
                    f"up to {usual:.4g}; leave client {model.facts.client} out, or train it "
                    "again with a lower --lr"
                ),
            )


def _group(entry: Entry) -> str:
    if not is_batchnorm_statistic(entry.name):
        return "weights"
    return "statistics" if entry.dtype.kind == "f" else "counters"


def _bound(usual: float, most: float) -> float:
    return max(FACTOR * usual, most) if usual else FACTOR * most


def _usual_mean(models: Sequence[Model], name: str, size: int) -> float:
    """The root of the mean square of a tensor, as it is in most models that have it."""
    having = [m.sizes[name].square for m in models if name in m.sizes]
    return sqrt(_lower_median(having) / size) if having else 0.0


def _lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]
