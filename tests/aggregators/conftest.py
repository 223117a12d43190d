"""Uploads in memory, for rules."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from furlkit.aggregators.distances import inner_products
from furlkit.weights import is_batchnorm_statistic


class InMemory:
    """Uploads of a few numbers; slices are short, so that a tensor has several."""

    def __init__(self, models: list[dict], shares=None, parent: dict | None = None):
        self.names, self.clients = list(models[0]), list(range(len(models)))
        floats = {k: a.dtype for k, a in models[0].items() if a.dtype.kind == "f"}
        self.weights = {
            k: v for k, v in floats.items() if not is_batchnorm_statistic(k)
        }
        self._models, self._parent = models, parent
        self._shares = (
            [1 / len(models)] * len(models) if shares is None else list(shares)
        )
        self.parent = parent is not None

    def shares(self, name: str) -> list[float]:
        return self._shares

    def combine(self, name, function, parent=False) -> Iterator[np.ndarray]:
        for stack in self._slices(name, parent):
            buffer = np.empty_like(stack[0])
            yield function(self._column(stack, buffer)).copy()

    def stacked(self, name, function, parent=False) -> Iterator[np.ndarray]:
        for stack in self._slices(name, parent):
            yield function(stack)

    def _column(self, stack, buffer) -> Iterator[np.ndarray]:
        for row in stack:
            buffer[:] = row  # An array is good until the next one is taken.
            yield buffer

    def _slices(self, name, parent) -> Iterator[np.ndarray]:
        models = [self._parent, *self._models] if parent else self._models
        flat = np.stack([np.ravel(model[name]) for model in models])
        flat.flags.writeable = False  # A rule must not change its uploads.
        for start in range(0, flat.shape[1], 3):
            yield flat[:, start : start + 3]


@pytest.fixture
def combined() -> Callable[..., dict[str, np.ndarray]]:
    """What a rule makes of models: combined(rule, models, shares, parent, **options)."""

    def call(rule, models, shares=None, parent=None, **options: Any) -> dict:
        pieces = rule(InMemory(models, shares, parent), **options)
        found = {}
        for name, array in models[0].items():
            # A tensor without numbers has no pieces.
            whole = [np.empty(0, array.dtype), *pieces(name)]
            found[name] = np.concatenate(whole).reshape(array.shape)
        return found

    return call


@pytest.fixture
def remembered() -> Callable[..., tuple[dict, dict]]:
    """Model and state of a rule: remembered(rule, slots, models, parent, state, ...).

    A state is a dict of tensors by SLOT.NAME; None before round 1.
    """

    def call(rule, slots, models, parent, state=None, shares=None, **options: Any):
        old = state and (lambda name: _thirds(state[name]))
        uploads = InMemory(models, shares, parent)
        model, kept = rule(uploads, old, **options)
        names = [f"{slot}.{name}" for slot in slots for name in uploads.weights]
        shapes = {name: array.shape for name, array in models[0].items()}
        found = {n: np.concatenate([*model(n)]).reshape(s) for n, s in shapes.items()}
        held = {n: np.concatenate([*kept(n)]) for n in names}
        return found, held

    return call


def _thirds(array: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, array.size, 3):
        yield array.ravel()[start : start + 3]


@pytest.fixture
def products() -> Callable[[list[dict]], np.ndarray]:
    """Inner products of models as rules compute them."""
    return lambda models: inner_products(InMemory(models))
