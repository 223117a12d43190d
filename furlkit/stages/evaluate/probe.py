"""Linear classifiers on frozen features, for `evaluate linear` and `personal`."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from furlkit.catalogue import PROTOCOLS, load
from furlkit.evaluation.linear import LinearSettings, predict_linear
from furlkit.evaluation.logistic import choose_logistic
from furlkit.evaluation.stylised import Pair, fit_stylised
from furlkit.randomness import torch_generator

# Classes of the test rows, by one or several classifiers; and further facts.
Predictions = tuple[list[Tensor], dict[str, Any]]


@dataclass(frozen=True, kw_only=True)
class Probe:
    """Options of linear classifiers; --solver lbfgs has no settings."""

    solver: str
    settings: LinearSettings | None
    probes: int | None = None

    def predict(
        self, h: Tensor, labels: Tensor, test: Tensor, classes: int, seed: int
    ) -> Predictions:
        """Fit classifiers to h (n, d), and classify the rows of `test`."""
        if self.settings is None:
            if h.device.type == "mps":  # MPS has no float64.
                h, labels, test = h.cpu(), labels.cpu(), test.cpu()
            regression, facts = choose_logistic(h, labels, classes)
            return [regression.predict(test)], facts
        fit = load(PROTOCOLS["linear"].function)
        heads = fit(h, labels, classes, self.settings, self._drawn(seed))
        return [predict_linear(test, *head) for head in heads], {}

    def predict_with(
        self, G: nn.Module, h: Pair, labels: Tensor, test: Pair, classes: int, seed: int
    ) -> Predictions:
        """Like `predict`, for FedStyle's personal features with a trained generator."""
        if self.settings is None:
            raise ValueError(f"--solver {self.solver} trains no generator")
        drawn = self._drawn(seed)
        fits = fit_stylised(h, labels, classes, self.settings, drawn, G)
        return [fit.predict(test) for fit in fits], {}

    def _drawn(self, seed: int) -> list[torch.Generator]:
        return [_generator(seed, probe) for probe in range(self.probes or 1)]


def _generator(seed: int, probe: int) -> torch.Generator:
    purpose = ("evaluate", "linear")  # The first classifier adds no number.
    return torch_generator(seed, *purpose, *([probe] if probe else []))
