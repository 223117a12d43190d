"""Logistic regression on frozen features: a convex fit without any randomness.

The fit minimises the mean cross-entropy of softmax(W x + b) plus l2/2 ||W||^2 over all
training rows, by L-BFGS in float64. Features are standardised first, by the mean and
std of the training rows, so one range of l2 suits every encoder. In scikit-learn's
LogisticRegression, C is 1 / (l2 N) for N rows.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from furlkit.errors import InputError
from furlkit.evaluation.scores import accuracy, check_features, check_labelled

# From strong to weak: each fit starts at the end of the fit before.
L2 = (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
EVERY = 5  # Every fifth row of each class is held out.
# Largest entry of the gradient at the end of a fit: of the last fit, and of fits to
# choose l2; largest number of steps.
TOLERANCE, ROUGHLY, STEPS = 1e-8, 1e-6, 2000
# Smaller stds, relative to the mean, are rounding of a constant feature.
CONSTANT = 1e-5


class Regression(NamedTuple):
    """A fit: weight (classes, d) and bias (classes) for rows of mean 0 and std 1.

    `steps`: number of steps of the last fit.
    """

    weight: Tensor
    bias: Tensor
    mean: Tensor
    std: Tensor
    steps: int

    def logits(self, features: Tensor) -> Tensor:
        """Logits of each row: (M, d) -> (M, classes)."""
        x = (features.double() - self.mean) / self.std
        return torch.addmm(self.bias, x, self.weight.T)

    def predict(self, features: Tensor) -> Tensor:
        """Class with the largest logit of each row: (M, d) -> (M)."""
        check_features(features)
        return self.logits(features).argmax(dim=1)


def choose_logistic(
    features: Tensor, labels: Tensor, classes: int
) -> tuple[Regression, dict[str, Any]]:
    """Choose l2 by held-out rows of features (N, d), then fit all rows.

    The loss decides, since rounding could change a tie of accuracies. Also return the
    held-out scores of every l2, for the metrics.
    """
    check_labelled(features, labels, classes)
    held = held_out(labels)
    part = features[~held], labels[~held], classes
    fits = fit_path(*part, L2, ROUGHLY)
    tried = [
        {"l2": l2, **_scored(fit, features[held], labels[held])}
        for l2, fit in zip(L2, fits, strict=True)
    ]
    best = min(tried, key=lambda each: each["loss"])["l2"]
    chosen = fit_path(features, labels, classes, [l2 for l2 in L2 if l2 >= best])[-1]
    facts = {"l2": best, "l2_range": tried, "held_out_examples": int(held.sum())}
    return chosen, {**facts, "steps": chosen.steps}


def _scored(fit: Regression, features: Tensor, labels: Tensor) -> dict[str, Any]:
    logits = fit.logits(features)
    return {
        "accuracy": accuracy(logits.argmax(dim=1), labels),
        "loss": F.cross_entropy(logits, labels.long()).item(),
        "steps": fit.steps,
    }


def held_out(labels: Tensor) -> Tensor:
    """Mask of the held-out rows: of each class the fifth, the tenth, ..."""
    rank = torch.zeros_like(labels, dtype=torch.long)
    for label in labels.unique():
        own = labels == label
        rank[own] = torch.arange(1, int(own.sum()) + 1, device=labels.device)
    held = rank % EVERY == 0
    if not held.any():
        raise InputError(
            f"labels: no class has {EVERY} images, of which one is held out to choose "
            "the strength of the penalty; use --solver gradient"
        )
    return held


def fit_path(
    features: Tensor,
    labels: Tensor,
    classes: int,
    strengths: Sequence[float],
    tolerance: float = TOLERANCE,
) -> list[Regression]:
    """Fit every l2, starting at the end of the fit before.

    Rows are rotated to their principal axes, which changes neither loss nor penalty. In
    these coordinates the Hessian is nearly diagonal, and far fewer steps are enough.
    """
    x = features.double()
    std, mean = torch.std_mean(x, dim=0, correction=0)
    std = torch.where(std > CONSTANT * mean.abs(), std, 1.0)  # 1 for constant columns.
    x = (x - mean) / std  # (N, d)
    spread, axes = torch.linalg.eigh(x.T @ x / len(x))  # (d), (d, d)
    x, w = x @ axes, x.new_zeros(classes, x.shape[1] + 1)
    found = []
    for l2 in strengths:
        curvature = torch.cat([spread.clamp(min=0) / 4 + l2, spread.new_tensor([0.25])])
        last = tolerance if l2 == strengths[-1] else max(tolerance, ROUGHLY)
        w, steps = _minimise(w, x, labels.long(), l2, curvature.sqrt(), last)
        found.append(Regression(w[:, :-1] @ axes.T, w[:, -1], mean, std, steps))
    return found


def _minimise(
    w: Tensor, x: Tensor, y: Tensor, l2: float, scale: Tensor, tolerance: float
) -> tuple[Tensor, int]:
    """Return the fit that starts at w (the bias is the last column), and its steps.

    L-BFGS moves v = w scale, for which one step length suits all coordinates.
    """
    v = w * scale
    optimiser = torch.optim.LBFGS(
        [v], max_iter=STEPS, max_eval=2 * STEPS, tolerance_grad=tolerance,
        tolerance_change=0, history_size=20, line_search_fn="strong_wolfe",
    )  # fmt: skip

    def closure() -> Tensor:
        loss, gradient = _loss(v / scale, x, y, l2)
        v.grad = gradient / scale
        return loss

    optimiser.step(closure)
    return v / scale, optimiser.state[v]["n_iter"]


def _loss(w: Tensor, x: Tensor, y: Tensor, l2: float) -> tuple[Tensor, Tensor]:
    """Loss, and gradient with the shape of w; classes are the first axis."""
    weight, bias = w[:, :-1], w[:, -1:]
    log_p = torch.addmm(bias, weight, x.T).log_softmax(dim=0)  # (classes, N)
    loss = l2 / 2 * weight.square().sum() - log_p.gather(0, y[None]).mean()
    e = log_p.exp_()
    e.scatter_add_(0, y[None], e.new_full((1, len(y)), -1.0)).div_(len(y))
    slope = torch.addmm(weight, e, x, beta=l2)  # (classes, d)
    return loss, torch.cat([slope, e.sum(dim=1, keepdim=True)], dim=1)
