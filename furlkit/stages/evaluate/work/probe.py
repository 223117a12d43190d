"""Linear classifiers on frozen features, for `evaluate linear` and `personal`."""

from typing import Any

import torch
from torch import Tensor, nn

from furlkit.catalogue import PROTOCOLS, load
from furlkit.evaluation.linear import predict_linear
from furlkit.evaluation.logistic import choose_logistic
from furlkit.evaluation.stylised import Pair, fit_stylised
from furlkit.randomness import torch_generator
from furlkit.stages.evaluate.probe import Probe

# Classes of the test rows, by one or several classifiers; and further facts.
Predictions = tuple[list[Tensor], dict[str, Any]]


def predict(
    probe: Probe, h: Tensor, labels: Tensor, test: Tensor, classes: int, seed: int
) -> Predictions:
    """Fit classifiers to h (n, d), and classify the rows of `test`."""
    if probe.settings is None:
        if h.device.type == "mps":  # MPS has no float64.
            h, labels, test = h.cpu(), labels.cpu(), test.cpu()
        regression, facts = choose_logistic(h, labels, classes)
        return [regression.predict(test)], facts
    fit = load(PROTOCOLS["linear"].function)
    heads = fit(h, labels, classes, probe.settings, _generators(probe, seed))
    return [predict_linear(test, *head) for head in heads], {}


def predict_with(
    probe: Probe,
    G: nn.Module,
    h: Pair,
    labels: Tensor,
    test: Pair,
    classes: int,
    seed: int,
) -> Predictions:
    """Like `predict`, for FedStyle's personal features with a trained generator."""
    if probe.settings is None:
        raise ValueError(f"--solver {probe.solver} trains no generator")
    drawn = _generators(probe, seed)
    fits = fit_stylised(h, labels, classes, probe.settings, drawn, G)
    return [fit.predict(test) for fit in fits], {}


def _generators(probe: Probe, seed: int) -> list[torch.Generator]:
    return [_generator(seed, number) for number in range(probe.probes or 1)]


def _generator(seed: int, probe: int) -> torch.Generator:
    purpose = ("evaluate", "linear")  # The first classifier adds no number.
    return torch_generator(seed, *purpose, *([probe] if probe else []))
