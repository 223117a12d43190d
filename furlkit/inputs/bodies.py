"""Checks of the tensors of a client's model, read once, in pieces, before aggregation.

Values that are not finite, BatchNorm statistics that no training produces, and weights
out of proportion are refused with the name of the tensor.
"""

from collections import Counter, defaultdict
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
from furlkit.inputs.uploads import OpenedUpload, check_fit
from furlkit.weights import is_batchnorm_statistic, online_name

FACTOR = 1e4
# Sums of squares in float32 are slightly inexact.
SLACK = 0.9
GROUPS = ("weights", "statistics", "counters")
FAILED = "the file was made by hand or the training failed, train this client again"


class Size(NamedTuple):
    """Sum of squares and largest absolute value of a tensor."""

    square: float
    largest: float


Sizes = dict[str, Size]


class Body(NamedTuple):
    """Sizes of the tensors of a model, and the sketch of the weights."""

    sizes: Sizes
    sketch: np.ndarray


class Model(OpenedUpload, Protocol):
    """A client's checkpoint, with the sizes of the tensors."""

    @property
    def sizes(self) -> Sizes:
        """Sizes returned by `examined_body`."""


def examined_body(opened: Container, by: str | None, remember: bool = False) -> Body:
    """Check the tensors; return the size of each float tensor and each counter.

    `by`: the hash to compare, `content` or `check`; None leaves it to a later pass.
    With `remember` a later pass compares bytes with the bytes read here.
    """
    found: Sizes = {}
    sketch, number = np.zeros(WIDTH), Counter[str]()
    for entry, data in opened.verified_pieces(by, remember):
        piece, name = data.view(entry.dtype), entry.name
        statistic = is_batchnorm_statistic(name)
        if statistic:
            check_statistic(opened.path, name, piece)
        if piece.dtype.kind == "f" or statistic:
            square, largest = found.get(name, Size(0.0, 0.0))
            square += _squared(opened, entry, piece)
            ends = -float(piece.min(initial=0)), float(piece.max(initial=0))
            found[name] = Size(square, max(largest, *ends))
        if piece.dtype.kind == "f" and not statistic:
            sketch += sketch_of(piece, name, number[name], prod(entry.shape))
        number[name] += 1
    return Body(found, sketch.astype(np.float32))


def sketch_of_parent(opened: Container, names: Iterable[str]) -> np.ndarray | None:
    """Sketch of these tensors of a global model; None if a tensor is missing.

    A target network starts with the weights of the online network. One pass reads the
    file in pieces and compares the checksum.
    """
    stored = {name: name if name in opened else online_name(name) for name in names}
    if not all(name in opened for name in stored.values()):
        return None
    users: dict[str, list[str]] = defaultdict(list)
    for name, source in stored.items():
        users[source].append(name)
    sketches: dict[str, list[np.ndarray]] = {name: [] for name in stored}
    for entry, data in opened.verified_pieces("check"):
        piece = data.view(entry.dtype)
        for name in users[entry.name]:
            number = len(sketches[name])
            sketches[name].append(sketch_of(piece, name, number, prod(entry.shape)))
    # Sums depend on the order: add in the order of the names, like `examined_body`.
    pieces = (sketch for name in stored for sketch in sketches[name])
    return sum(pieces, np.zeros(WIDTH)).astype(np.float32)


def _squared(opened: Container, entry: Entry, piece: np.ndarray) -> float:
    if piece.dtype == np.float32:
        squared = float(np.vdot(piece, piece))
        if np.isfinite(squared):
            return squared
    wide = piece.astype(np.float64)
    squared = float(np.vdot(wide, wide))
    if not np.isfinite(squared):
        # Read the whole tensor, to count such values; the file may change meanwhile.
        check_finite(opened.path, entry.name, opened.read(entry))
        check_finite(opened.path, entry.name, piece)
    return squared


def check_statistic(
    path: Path, name: str, values: np.ndarray, cause: str = FAILED
) -> None:
    """Check that variances and counters are at least 0, counters below the limit."""
    counts = values.dtype.kind in "iu"
    if name.endswith("running_var") or counts:
        lowest, highest = values.min(), values.max()
        # NaN is not below 0; `_squared` finds NaN.
        if lowest < 0 or (counts and highest > np.iinfo(values.dtype).max // 2):
            odd = lowest if lowest < 0 else highest
            kind = "counter of batches" if counts else "variance"
            raise InputError(
                f"{path}: {name} has {odd:.6g}, which is no {kind}; {cause}"
            )


def check_sizes(models: Sequence[Model], statistics: bool) -> None:
    """Refuse a tensor with a number beyond FACTOR times the usual largest number.

    The usual number is the lower median over the clients. The number must also exceed
    every usual weight, by FACTOR if the usual number is 0: a bias may just have begun
    to move. With `statistics` BatchNorm's statistics and counters are compared too,
    each group separately: the mean takes the largest counter, and a counter near the
    limit would make the server refuse the honest clients of the next round.
    """
    counts: dict[str, int] = {}
    groups: dict[str, set[str]] = {name: set() for name in GROUPS}
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
    """Yield each model with a number out of proportion, and the reason."""
    having = [model for model in models if name in model.sizes]
    # No number exceeds the length; the mean does not exceed the largest number.
    bound = SLACK * _bound(mean, most)
    if not any(sqrt(model.sizes[name].square) > bound for model in having):
        return
    usual = _lower_median([model.sizes[name].largest for model in having])
    for model in having:
        found = model.sizes[name].largest
        if sqrt(model.sizes[name].square) > bound and found > _bound(usual, most):
            reason = (
                f"{name} has numbers up to {found:.4g}, usual are numbers up to "
                f"{usual:.4g}; leave client {model.facts.client} out, or train it "
                "again with a lower --lr"
            )
            yield model, reason


def _group(entry: Entry) -> str:
    if not is_batchnorm_statistic(entry.name):
        return "weights"
    return "statistics" if entry.dtype.kind == "f" else "counters"


def _bound(usual: float, most: float) -> float:
    return max(FACTOR * usual, most) if usual else FACTOR * most


def _usual_mean(models: Sequence[Model], name: str, size: int) -> float:
    """Usual root mean square of a tensor among the models with the tensor."""
    having = [m.sizes[name].square for m in models if name in m.sizes]
    return sqrt(_lower_median(having) / size) if having else 0.0


def _lower_median(values: Sequence[float]) -> float:
    return sorted(values)[(len(values) - 1) // 2]
