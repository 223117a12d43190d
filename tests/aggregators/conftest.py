"""Uploads in memory, for rules."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from furlkit.aggregators.distances import inner_products


class InMemory:
    """Uploads of a few numbers; slices are short, so that a tensor has several."""

    def __init__(self, models: list[dict], shares=None, parent: dict | None = None):
        self.names, self.clients = list(models[0]), list(range(len(models)))
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
def products() -> Callable[[list[dict]], np.ndarray]:
    """Inner products of models as rules compute them."""
    return lambda models: inner_products(InMemory(models))
