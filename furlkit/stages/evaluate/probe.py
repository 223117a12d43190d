"""Linear classifiers on frozen features, for `evaluate linear` and `personal`."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from furlkit.evaluation.linear import LinearSettings, fit_linear, predict_linear
from furlkit.evaluation.logistic import choose_logistic
from furlkit.randomness import torch_generator

# Classes of the test rows, by one classifier or several; and what else is to be noted.
Predictions = tuple[list[Tensor], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """How linear classifiers are fitted; those of --solver lbfgs have no settings."""

    solver: str
    settings: LinearSettings | None
    probes: int | None = None

    def predict(
        self, h: Tensor, labels: Tensor, test: Tensor, classes: int, seed: int
    ) -> Predictions:
        """Fit classifiers to h (n, d), and let them sort the rows of `test`."""
        if self.settings is None:
            regression, facts = choose_logistic(h, labels, classes)
            return [regression.predict(test)], facts
        drawn = [_generator(seed, probe) for probe in range(self.probes or 1)]
        heads = fit_linear(h, labels, classes, self.settings, drawn)
        return [predict_linear(test, *head) for head in heads], {}


def _generator(seed: int, probe: int) -> torch.Generator:
    purpose = ("evaluate", "linear")  # That of the first, and of a single one.
    return torch_generator(seed, *purpose, *([probe] if probe else []))
